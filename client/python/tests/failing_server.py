"""A server in this process that answers as it is told: what a real one does
only when it is full or goes away."""
import contextlib
from concurrent import futures

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from headrace.v1 import generation_pb2, inference_pb2_grpc, models_pb2

OK = None  # an answer: the reply itself


class Failure:
    """A status with google.rpc details, after `events` events of a stream."""

    def __init__(self, code, *details, events=0):
        self.code, self.details, self.events = code, details, events

    def end(self, context):
        status = status_pb2.Status(code=self.code.value[0], message="told so")
        for detail in self.details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
        context.abort(self.code, "told so")


def retry_info(seconds):
    delay = duration_pb2.Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)


class FailingServer(inference_pb2_grpc.InferenceServiceServicer, inference_pb2_grpc.ModelServiceServicer):
    """Takes the next of `answers` for each call; OK when there are no more."""

    def __init__(self):
        self.answers = []
        self.timeouts = []  # what was left of each call's deadline

    def _answer(self, context):
        self.timeouts.append(context.time_remaining())
        return self.answers.pop(0) if self.answers else OK

    def GetModel(self, request, context):
        answer = self._answer(context)
        if answer is not OK:
            answer.end(context)
        return models_pb2.GetModelResponse(model=models_pb2.Model(name="told"))

    def Generate(self, request, context):
        answer = self._answer(context)
        events = [generation_pb2.GenerateResponse(header=generation_pb2.Header(model="told")),
                  generation_pb2.GenerateResponse(token=generation_pb2.Token(text="a")),
                  generation_pb2.GenerateResponse(end=generation_pb2.End())]
        if answer is OK:
            yield from events
            return
        yield from events[:answer.events]
        answer.end(context)


@contextlib.contextmanager
def serving():
    """(address, FailingServer)"""
    servicer = FailingServer()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server)
    inference_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", servicer
    finally:
        server.stop(None).wait()

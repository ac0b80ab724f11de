"""The calls of the services, with the types that go in and out."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Generic, Optional, Type, TypeVar

from google.protobuf.message import Message

from headrace.v1 import generation_pb2, models_pb2, vectors_pb2
from headrace.wire import RowsReader

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    """One RPC. Both kinds of channel, grpc's and grpc.aio's, take it."""

    service: str
    name: str
    request: Type[Request]
    response: Type[Response]
    streams: bool = False
    # In place of `response.FromString`.
    read: Optional[Callable[[bytes], Any]] = None

    def on(self, channel: Any) -> Any:
        """What makes the call on a channel."""
        make = channel.unary_stream if self.streams else channel.unary_unary
        return make(f"/headrace.v1.{self.service}/{self.name}", request_serializer=self.request.SerializeToString,
                    response_deserializer=self.read or self.response.FromString)


GENERATE = Method("InferenceService", "Generate", generation_pb2.GenerateRequest, generation_pb2.GenerateResponse,
                  streams=True)
FORWARD = Method("InferenceService", "Forward", generation_pb2.ForwardRequest, generation_pb2.ForwardResponse,
                 streams=True)
# The same, with activations as Rows.
GENERATE_ROWS = replace(GENERATE, read=RowsReader(generation_pb2.GenerateResponse))
FORWARD_ROWS = replace(FORWARD, read=RowsReader(generation_pb2.ForwardResponse))
EMBED = Method("InferenceService", "Embed", generation_pb2.EmbedRequest, generation_pb2.EmbedResponse)
TOKENIZE = Method("InferenceService", "Tokenize", generation_pb2.TokenizeRequest, generation_pb2.TokenizeResponse)
DETOKENIZE = Method("InferenceService", "Detokenize", generation_pb2.DetokenizeRequest,
                    generation_pb2.DetokenizeResponse)
APPLY_CHAT_TEMPLATE = Method("InferenceService", "ApplyChatTemplate", generation_pb2.ApplyChatTemplateRequest,
                             generation_pb2.ApplyChatTemplateResponse)
LIST_MODELS = Method("ModelService", "ListModels", models_pb2.ListModelsRequest, models_pb2.ListModelsResponse)
GET_MODEL = Method("ModelService", "GetModel", models_pb2.GetModelRequest, models_pb2.GetModelResponse)
LIST_HOOK_POINTS = Method("ModelService", "ListHookPoints", models_pb2.ListHookPointsRequest,
                          models_pb2.ListHookPointsResponse)
ESTIMATE_CAPTURE = Method("ModelService", "EstimateCapture", models_pb2.EstimateCaptureRequest,
                          models_pb2.EstimateCaptureResponse)
PUT_VECTOR = Method("VectorService", "PutVector", vectors_pb2.PutVectorRequest, vectors_pb2.PutVectorResponse)
GET_VECTOR = Method("VectorService", "GetVector", vectors_pb2.GetVectorRequest, vectors_pb2.GetVectorResponse)
DELETE_VECTOR = Method("VectorService", "DeleteVector", vectors_pb2.DeleteVectorRequest,
                       vectors_pb2.DeleteVectorResponse)

"""The manifests of deploy/kubernetes as kustomize renders them: whole, agreeing
with each other and with the image, and hardened."""

import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
LABELS = {"app.kubernetes.io/name": "headrace"}
PORT = 50051


@pytest.fixture(scope="module")
def manifests():
    """{kind: the one object of that kind}."""
    if not shutil.which("kustomize"):
        pytest.skip("kustomize is not installed")
    rendered = subprocess.run(
        ["kustomize", "build", ROOT / "deploy/kubernetes"], check=True, capture_output=True, text=True)
    objects = list(yaml.safe_load_all(rendered.stdout))
    by_kind = {object["kind"]: object for object in objects}
    assert len(by_kind) == len(objects)
    return by_kind


@pytest.fixture
def pod(manifests):
    return manifests["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture
def container(pod):
    (container,) = pod["containers"]
    return container


def dockerfile_value(pattern):
    text = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    return re.findall(pattern, text, re.MULTILINE)[-1]


def test_kinds_and_versions(manifests):
    assert {kind: object["apiVersion"] for kind, object in manifests.items()} == {
        "Deployment": "apps/v1",
        "Service": "v1",
        "PodDisruptionBudget": "policy/v1",
        "NetworkPolicy": "networking.k8s.io/v1",
    }


def test_every_selector_selects_the_pods_and_only_them(manifests, pod):
    deployment = manifests["Deployment"]["spec"]
    selectors = [
        deployment["selector"]["matchLabels"],
        deployment["template"]["metadata"]["labels"],
        pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
        manifests["Service"]["spec"]["selector"],
        manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]

    assert all(selector == LABELS for selector in selectors), selectors


def test_the_service_is_headless_and_reaches_the_port(manifests, container):
    service = manifests["Service"]["spec"]
    port = container["ports"][0]

    assert service["clusterIP"] == "None"
    assert service["ports"][0]["port"] == port["containerPort"] == PORT
    assert service["ports"][0]["targetPort"] == port["name"]
    assert f"--listen=0.0.0.0:{PORT}" in container["args"]
    assert dockerfile_value(r"^EXPOSE (\d+)") == str(PORT)


@pytest.mark.parametrize("probe, service", [
    ("startupProbe", "readiness"), ("livenessProbe", "liveness"), ("readinessProbe", "readiness")])
def test_probes_ask_the_health_service_by_name(container, probe, service):
    assert container[probe]["grpc"] == {"port": PORT, "service": service}


def test_a_slow_load_is_not_a_failed_start(container):
    probe = container["startupProbe"]

    assert probe["periodSeconds"] * probe["failureThreshold"] >= 600


def test_the_grace_period_covers_notice_and_drain(pod, container):
    seconds = {name: int(value) for name, value in re.findall(
        r"--(drain_\w+)=(\d+)s", " ".join(container["args"]))}

    assert set(seconds) == {"drain_notice", "drain_grace"}
    assert pod["terminationGracePeriodSeconds"] >= sum(seconds.values()) + 10


def test_every_flag_is_one_of_the_servers(container):
    main = (ROOT / "server/main.cc").read_text(encoding="utf-8")
    flags = set(re.findall(r"ABSL_FLAG\([^,]+,\s*(\w+),", main))
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
    image = re.findall(r'"(--\w+)"', dockerfile_value(r"^CMD (.*)$"))

    for argument in container["args"] + compose["services"]["headrace"]["command"] + image:
        assert re.match(r"--(\w+)", argument)[1] in flags, argument


def test_the_pod_is_hardened(pod, container):
    context = container["securityContext"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in context
    for shared in ("hostNetwork", "hostPID", "hostIPC"):
        assert shared not in pod


def test_the_user_is_that_of_the_image(pod):
    user = dockerfile_value(r"^USER (\d+:\d+)$")

    assert user == f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"


def test_requests_equal_limits_in_whole_cpus(container):
    resources = container["resources"]

    assert resources["requests"] == resources["limits"]
    assert resources["limits"]["cpu"].isdigit()
    assert "memory" in resources["limits"]


def test_the_model_is_read_only(pod, container):
    (volume,) = pod["volumes"]
    (mount,) = container["volumeMounts"]

    assert volume["persistentVolumeClaim"]["readOnly"] is True
    assert mount["readOnly"] is True and mount["name"] == volume["name"]
    assert any(arg.startswith(f"--model={mount['mountPath']}/") for arg in container["args"])


def test_the_network_policy_lets_in_clients_and_lets_nothing_out(manifests, container):
    policy = manifests["NetworkPolicy"]["spec"]
    clients, metrics = policy["ingress"]

    assert policy["policyTypes"] == ["Ingress", "Egress"] and "egress" not in policy
    assert [rule["ports"][0]["port"] for rule in (clients, metrics)] == [
        port["name"] for port in container["ports"]]
    assert clients["from"] == [{"podSelector": {"matchLabels": {"headrace-client": "true"}}}]
    assert list(metrics["from"][0]) == ["namespaceSelector"]


def test_a_rollout_or_a_node_drain_never_takes_all_replicas(manifests):
    deployment = manifests["Deployment"]["spec"]

    assert deployment["replicas"] >= 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert manifests["PodDisruptionBudget"]["spec"]["maxUnavailable"] < deployment["replicas"]

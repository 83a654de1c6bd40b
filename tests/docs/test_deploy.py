"""The compose file and the manifests of examples/deploy are what tools and reviews accept."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from fairqueue import FairQueue
from fairqueue.testing import embedded_redis
from tests.pages import ROOT, blocks, check_command

yaml = pytest.importorskip("yaml", reason="the extra 'dev' has it")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="the extra 'dev' has it")

DEPLOY = ROOT / "examples" / "deploy"
SHOP = ROOT / "examples" / "fastapi_shop"
KUBERNETES = "1.30"
SCALER = ROOT / "examples" / "monitoring" / "hpa.yaml"


def _manifests(*paths: Path) -> list[Any]:
    return [
        pytest.param(manifest, id=f"{path.stem}-{manifest['kind']}")
        for path in paths
        for manifest in yaml.safe_load_all(path.read_text())
    ]


BASE = DEPLOY / "kubernetes" / "kustomization.yaml"
MANIFESTS = _manifests(*sorted({*(DEPLOY / "kubernetes").glob("*.yaml")} - {BASE}))
UNITS = sorted((DEPLOY / "systemd").iterdir())


Condition = Literal["service_started", "service_healthy", "service_completed_successfully"]


class Strict(BaseModel):
    """Unknown fields are mistakes."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Service(Strict):
    image: str = ""
    build: dict[Literal["context", "dockerfile"], str] | None = None
    command: list[str] = []
    environment: dict[str, str] = {}
    ports: list[str] = []
    volumes: list[str] = []
    healthcheck: dict[Literal["test", "interval"], list[str] | str] | None = None
    stop_grace_period: str = ""
    restart: Literal["no", "always", "on-failure", "unless-stopped"] = "no"
    depends_on: dict[str, dict[Literal["condition"], Condition]] = {}
    user: str = ""
    secrets: list[str] = []
    configs: list[dict[Literal["source", "target"], str]] = []
    networks: list[str] = ["default"]
    read_only: bool = False
    tmpfs: list[str] = []
    cap_drop: list[str] = []
    security_opt: list[str] = []


class Compose(Strict):
    services: dict[str, Service]
    volumes: dict[str, dict[str, Any]]
    networks: dict[str, dict[Literal["internal"], bool]]
    secrets: dict[str, dict[Literal["file"], str]]
    configs: dict[str, dict[Literal["file"], str]]


def _lists(value: Any) -> Iterator[list[Any]]:
    """Every list of texts in a document."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        yield value
    children = value.values() if isinstance(value, dict) else value
    if not isinstance(value, str | int | None):
        for child in children:
            yield from _lists(child)


@pytest.fixture
def compose() -> Compose:
    """Both files together, as compose merges them."""
    found: dict[str, Any] = {}
    for name in ("compose.yaml", "monitoring.yaml"):
        for part, value in yaml.safe_load((DEPLOY / name).read_text()).items():
            if not part.startswith("x-"):
                found[part] = {**found.get(part, {}), **value}
    return Compose.model_validate(found)


def test_the_compose_file_is_whole(compose: Compose) -> None:
    """Its fields are known, and what a service names is there."""
    for name, service in compose.services.items():
        assert bool(service.image) != bool(service.build), name
        assert set(service.depends_on) <= set(compose.services)
        for needed, how in service.depends_on.items():
            is_checked = compose.services[needed].healthcheck is not None
            assert is_checked or how["condition"] != "service_healthy"
        assert {volume.split(":")[0] for volume in service.volumes} <= set(compose.volumes)
        assert set(service.secrets) <= set(compose.secrets)
        assert {config["source"] for config in service.configs} <= set(compose.configs)
        assert set(service.networks) <= {"default", *compose.networks}
        if service.build:
            assert (DEPLOY / service.build["context"] / service.build["dockerfile"]).is_file()


def test_what_is_provisioned_is_there(compose: Compose) -> None:
    """The files exist; Prometheus finds the exporter and the rules, and Grafana Prometheus."""
    files = {name: DEPLOY / config["file"] for name, config in compose.configs.items()}
    assert [str(path) for path in files.values() if not path.is_file()] == []
    found = {name: yaml.safe_load(path.read_text()) for name, path in files.items()}
    targets = {
        config["target"]: config["source"]
        for name in ("prometheus", "grafana")
        for config in compose.services[name].configs
    }
    for rules in found["prometheus"]["rule_files"]:
        assert targets[f"/etc/prometheus/{rules}"] == "alerts"
    (scraped,) = found["prometheus"]["scrape_configs"]
    (address,) = scraped["static_configs"][0]["targets"]
    assert address.split(":")[1] in compose.services[address.split(":")[0]].command[-1]
    (source,) = found["datasource"]["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = found["dashboards"]["providers"]
    assert targets[f"{provider['options']['path']}/fairqueue.json"] == "dashboard"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs prometheus")
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """With the rules beside it."""
    for path in (DEPLOY / "monitoring" / "prometheus.yml", SCALER.with_name("alerts.yml")):
        shutil.copy(path, tmp_path)
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_base_has_every_manifest() -> None:
    """But what needs KEDA."""
    base = yaml.safe_load(BASE.read_text())
    assert (base["apiVersion"], base["kind"]) == (
        "kustomize.config.k8s.io/v1beta1",
        "Kustomization",
    )
    there = {path.name for path in BASE.parent.glob("*.yaml")}
    assert {*base["resources"], "autoscale.yaml", BASE.name} == there


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kustomize_builds_the_base() -> None:
    """With the kustomize of kubectl, which asks no cluster."""
    command = ["kubectl", "kustomize", str(BASE.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    named = {(m["kind"], m["metadata"]["name"]) for m in yaml.safe_load_all(done.stdout)}
    manifests = {(p.values[0]["kind"], p.values[0]["metadata"]["name"]) for p in MANIFESTS}
    assert manifests - named == {("ScaledObject", "worker")}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_one(path: Path) -> None:
    """Its lines are sections and keys, and its command exists."""
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(path.read_text())
    assert set(unit) <= {"DEFAULT", "Unit", "Service", "Timer", "Install"}
    if path.suffix == ".timer":
        assert path.with_suffix(".service") in UNITS
        return
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    if program.endswith("/fairqueue"):
        check_command(words)
    else:  # the percent sign of the node's name is escaped
        assert "worker@%%h" in words
        assert unit["Service"]["KillMode"] == "mixed"


def test_what_the_image_copies_is_there(compose: Compose) -> None:
    """And no more is needed to install the package."""
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert copied
    assert [path for line in copied for path in line.split() if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("manifest", [*MANIFESTS, *_manifests(SCALER)])
def test_a_manifest_is_valid(manifest: dict[str, Any]) -> None:
    """By the schemas of Kubernetes itself; a field that it does not know is a mistake."""
    if manifest["apiVersion"].startswith("keda.sh"):
        (trigger,) = manifest["spec"]["triggers"]
        assert trigger["type"] == "metrics-api"
        assert set(trigger["metadata"]) == {"url", "format", "valueLocation", "targetValue"}
        return
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_what_manifests_name_is_there() -> None:
    """Selectors match labels, and the scaler's target is a deployment."""
    found: list[Any] = [param.values[0] for param in MANIFESTS]
    named = {(m["kind"], m["metadata"]["name"]): m["spec"] for m in found}
    for (kind, name), spec in named.items():
        if kind in {"Deployment", "StatefulSet"}:
            labels = spec["template"]["metadata"]["labels"]
            assert spec["selector"]["matchLabels"] == labels == {"app": name}
        elif kind == "Service":
            assert spec["selector"] == {"app": name}
    assert ("Deployment", named["ScaledObject", "worker"]["scaleTargetRef"]["name"]) in named


def _pods() -> dict[str, Any]:
    """What each manifest runs, by its label."""
    found = {}
    for manifest in (param.values[0] for param in MANIFESTS):
        spec = manifest["spec"]
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            found[template["metadata"]["labels"]["app"]] = template["spec"]
    return found


@pytest.mark.parametrize("name", _pods())
def test_a_pod_is_restricted(name: str) -> None:
    """By the standard of Kubernetes, with a read-only root and without a token of the cluster."""
    pod = _pods()[name]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]) == {"requests", "limits"}
    assert {mount["name"] for mount in container["volumeMounts"]} >= {
        volume["name"] for volume in pod["volumes"]
    }
    assert "$(" not in " ".join(container.get("args", []) + container.get("command", []))


def test_nothing_reaches_a_pod_unless_it_is_allowed() -> None:
    """All is denied first, what asks Redis may, and each policy is for a pod that there is."""
    found: list[Any] = [param.values[0] for param in MANIFESTS]
    policies = {m["metadata"]["name"]: m["spec"] for m in found if m["kind"] == "NetworkPolicy"}
    everything = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert policies.pop("nothing-unless-allowed") == everything
    clients = {name for name in _pods() if name != "redis"}
    (of_redis,) = policies["redis"]["ingress"]
    assert _selected(policies["to-redis-and-dns"]["podSelector"]) == clients
    assert _selected(of_redis["from"][0]["podSelector"]) == clients
    assert _selected(policies["redis"]["podSelector"]) == {"redis"}
    for spec in policies.values():
        assert _selected(spec["podSelector"]) <= set(_pods())
        assert all(rule["from"] and rule["ports"] for rule in spec.get("ingress", []))


def _selected(selector: dict[str, Any]) -> set[str]:
    """The pods that a policy names."""
    by_list = (value for rule in selector.get("matchExpressions", []) for value in rule["values"])
    return {*selector.get("matchLabels", {}).values(), *by_list}


def test_a_service_of_the_compose_file_is_restricted(compose: Compose) -> None:
    """None gains rights, and none is reached from other hosts, or Redis from outside at all."""
    (user,) = re.findall(r"^USER (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    for name, service in compose.services.items():
        assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", service.user or user), name
        assert service.read_only, name
        assert service.cap_drop == ["ALL"], name
        assert service.security_opt == ["no-new-privileges:true"], name
        assert all(port.startswith("127.0.0.1:") for port in service.ports), name
        assert "PASSWORD" not in " ".join(service.command), name
    assert compose.services["redis"].networks == ["redis"]
    assert compose.networks["redis"]["internal"]


def test_both_start_the_same_redis(compose: Compose) -> None:
    """A maintained one; its users come from a file, and its options are those that Redis needs."""
    (container,) = _pods()["redis"]["containers"]
    redis = compose.services["redis"]
    assert redis.image == container["image"] == "valkey/valkey:9.1-alpine"
    for words in (redis.command, container["args"]):
        options = dict(zip(words[1::2], words[2::2], strict=True))
        assert options["--aclfile"].endswith("/users.acl")
        assert (options["--appendonly"], options["--maxmemory-policy"]) == ("yes", "noeviction")


def test_the_users_file_lets_the_shop_in_and_no_other() -> None:
    """A job's life and the doctor need no more than its user may."""
    default, shop = (DEPLOY / "users.acl").read_text().replace("PASSWORD", "hunter2").splitlines()
    assert default == "user default off"
    with embedded_redis(tcp=True) as server:
        if server.version.startswith("Redis 6"):
            pytest.skip("this server knows no rules for subcommands, such as +client|id")
        server.client().execute_command("ACL", "SETUSER", *shop.split()[1:])
        with FairQueue(f"redis://shop:hunter2@127.0.0.1:{server.port}/0") as queue:
            queue.publish(b"", queue="q", workspace="acme")
            queue.ack(queue.claim(["q"]).leases[0])
            assert queue.doctor.checkup().findings == ()


def test_commands_exist(compose: Compose) -> None:
    """Those of fairqueue have their options, and modules are those of the shop."""
    documents = [*(param.values[0] for param in MANIFESTS), compose.model_dump()]
    commands = [words for document in documents for words in _lists(document) if words]
    own = [words[1:] for words in commands if words[0] == "fairqueue"]
    assert len(own) == 4
    assert "metrics" in compose.services
    for words in own:
        check_command(words)
    modules = {"web" if words[0] == "uvicorn" else words[2] for words in commands
               if words[0] in {"uvicorn", "celery"}}  # fmt: skip
    assert [name for name in modules if not (SHOP / f"{name}.py").exists()] == []


def test_the_pod_of_the_page_is_valid() -> None:
    """The excerpt in docs/operate/deploy.md, completed by an image."""
    (excerpt,) = blocks(ROOT / "docs" / "operate" / "deploy.md", "yaml")
    spec = yaml.safe_load(excerpt)["spec"]
    spec["containers"][0]["image"] = "shop"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, "spec": spec}
    kubernetes_validate.validate(pod, KUBERNETES, strict=True)

"""What docs/deploy holds fits the platform: its variables, and the commands that the tests of the cluster start."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from resources.settings import Settings

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
SERVICES = ("code", "webserver", "daemon")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def deployments(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The one container of each deployment."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]
        for each in manifests
        if each["kind"] == "Deployment"
    }


@pytest.mark.parametrize("path", ["deploy.md", "deploy/Dockerfile"])
def test_lock_files_are_installed_without_resolving_anew(path: str) -> None:
    """pip asks for hashes of `gql[requests]`, which a package needs: a lock file has the lines of what that stands for."""
    lines = [line for line in (DEPLOY.parent / path).read_text().splitlines() if ".lock" in line and "install" in line]
    assert lines
    assert all("--require-hashes" in line and "--no-deps" in line for line in lines)


def test_compose_sets_what_the_platform_takes(compose: dict[str, Any]) -> None:
    for name in ("master", "worker", *SERVICES):
        given = {
            key: value.replace("${POSTGRES_PASSWORD:?}", "p")
            for key, value in compose["services"][name]["environment"].items()
        }
        settings = Settings.from_environment(given)
        assert settings.spark_master == "spark://master:7077"
        assert settings.checkpoints in [mount.partition(":")[2] for mount in compose["services"][name]["volumes"]]


def test_what_services_wait_for_and_mount_is_there(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", ())) <= set(compose["services"])
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists()


def test_kubernetes_sets_what_the_platform_takes(manifests: list[dict[str, Any]]) -> None:
    data = next(each["data"] for each in manifests if each["kind"] == "ConfigMap")
    secrets = {
        "SNAPLINE_LINEAGE_URL": "jdbc:postgresql://database/lineage?user=u&password=p",
        "SNAPLINE_DAGSTER_URL": "postgresql://u:p@database/dagster",
    }
    assert Settings.from_environment({**data, **secrets}).spark_remote
    assert set(secrets) <= set((DEPLOY / "kubernetes.yaml").read_text().replace(".", " ").split())


def test_both_start_the_services_by_the_same_words(compose: dict[str, Any], manifests: list[dict[str, Any]]) -> None:
    containers = deployments(manifests)
    for name in SERVICES:
        assert containers[name]["command"] == compose["services"][name]["command"].split()


def test_services_of_kubernetes_lead_to_deployments_that_listen_there(manifests: list[dict[str, Any]]) -> None:
    containers = deployments(manifests)
    for each in manifests:
        if each["kind"] == "Service":
            words = containers[each["spec"]["selector"]["app"]]["command"]
            assert any(word.endswith(str(each["spec"]["ports"][0]["port"])) for word in words)


def test_the_workspace_names_the_service_of_the_code(compose: dict[str, Any]) -> None:
    [location] = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())["load_from"]
    server = location["grpc_server"]
    assert server["host"] in compose["services"]
    assert f"--port {server['port']}" in compose["services"][server["host"]]["command"]

"""What docs/deploy holds fits the platform: its variables, and the commands that the tests of the cluster start."""

import re
import subprocess
from fnmatch import fnmatch
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


def pods(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in manifests if each["kind"] == "Deployment"]


def names_of(manifests: list[dict[str, Any]], kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in manifests if each["kind"] == kind}


def test_every_service_account_configuration_and_claim_of_pods_is_made(manifests: list[dict[str, Any]]) -> None:
    for pod in pods(manifests):
        assert pod["serviceAccountName"] in names_of(manifests, "ServiceAccount")
        claims = [each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"]]
        assert set(claims) <= names_of(manifests, "PersistentVolumeClaim")
        [container] = pod["containers"]
        sources = [each["configMapRef"]["name"] for each in container["envFrom"] if "configMapRef" in each]
        assert set(sources) <= names_of(manifests, "ConfigMap")
        assert {each["name"] for each in container["volumeMounts"]} <= {each["name"] for each in pod["volumes"]}


def test_the_directory_of_checkpoints_is_mounted_by_every_pod(manifests: list[dict[str, Any]]) -> None:
    [data] = [each["data"] for each in manifests if each["kind"] == "ConfigMap"]
    for pod in pods(manifests):
        assert data["SNAPLINE_CHECKPOINTS"] in [each["mountPath"] for each in pod["containers"][0]["volumeMounts"]]


def test_directories_that_are_mounted_are_in_the_image_and_belong_to_its_user(
    compose: dict[str, Any], manifests: list[dict[str, Any]]
) -> None:
    image = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    [user] = re.findall(r"^USER (\S+)$", image, re.M)
    made = re.findall(r"mkdir ((?:/\S+ ?)+)", image)[0].split()
    owned = re.findall(rf"chown -R {user} ((?:/\S+ ?)+)", image)[0].split()
    mounted = {mount.split(":")[1] for name in SERVICES for mount in compose["services"][name]["volumes"]}
    mounted |= {each["mountPath"] for pod in pods(manifests) for each in pod["containers"][0]["volumeMounts"]}
    assert mounted <= set(made) and mounted <= set(owned)
    home = re.findall(r"SNAPLINE_HOME=(\S+)", image)[0]
    assert home in made and home in owned
    # Volumes of Kubernetes belong to a group by its number.
    assert all(f"--uid {pod['securityContext']['fsGroup']} " in image for pod in pods(manifests))


@pytest.mark.parametrize("secret", ["docs/deploy/.env", ".env", ".env.production", "docs/deploy/.env.local"])
def test_files_of_secrets_are_neither_committed_nor_copied_into_the_image(secret: str) -> None:
    root = DEPLOY.parents[1]
    assert subprocess.run(["git", "-C", str(root), "check-ignore", "-q", secret]).returncode == 0
    assert is_left_out(secret)


@pytest.mark.parametrize("name", [".git", ".venv", ".snapline", "storage/__pycache__", ".mypy_cache", "dist"])
def test_what_is_no_part_of_the_platform_is_not_copied_into_the_image(name: str) -> None:
    assert is_left_out(name)
    assert not is_left_out("dagster.yaml") and not is_left_out("docs/deploy/workspace.yaml")


def is_left_out(path: str) -> bool:
    """Whether .dockerignore names it, where `**/` is any directory, or none."""
    lines = (DEPLOY.parents[1] / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    return any(
        fnmatch(path, pattern) or (pattern.startswith("**/") and fnmatch(path.rpartition("/")[2], pattern[3:]))
        for pattern in patterns
    )

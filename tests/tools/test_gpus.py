"""harness/lessons/gpus.json: each figure names its document and where it was looked up, and agrees with the others."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from conftest import ROOT

FOLDER = ROOT / "harness" / "lessons"
LANES = {"7.5": 64, "8.0": 64, "8.6": 128, "8.9": 128, "9.0": 128}  # fp32 multiply-adds per cycle and multiprocessor
SPARSE = re.compile(r"half of ([\d,]+) with sparsity")


@pytest.fixture(scope="module")
def held() -> dict[str, Any]:
    return json.loads((FOLDER / "gpus.json").read_text())


def figures(held: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(gpu["name"], name, figure) for gpu in held["gpus"] for name, figure in gpu["figures"].items()]


def test_it_has_the_form_that_its_schema_says(held: dict[str, Any]) -> None:
    schema = json.loads((FOLDER / "gpus.schema.json").read_text())
    jsonschema_rs.validate(schema, held)
    del held["gpus"][0]["figures"]["l2_bytes"]["checked"]
    with pytest.raises(jsonschema_rs.ValidationError, match="checked"):
        jsonschema_rs.validate(schema, held)
    held["gpus"][0]["figures"]["l2_bytes"]["checked"] = "again"


def test_a_figure_says_where_it_is_from(held: dict[str, Any]) -> None:
    for gpu, name, figure in figures(held):
        said = figure["from"]
        assert said.startswith(("NVIDIA ", "deviceQuery of ", "computed: ", "results/")), (gpu, name, said)
        if said.startswith("results/"):
            assert (ROOT / said.partition(":")[0]).is_file(), (gpu, name)
    capabilities = {gpu["capability"] for gpu in held["gpus"]}
    assert capabilities <= set(held["capabilities"])


def test_figures_of_a_gpu_agree(held: dict[str, Any]) -> None:
    compared = 0
    for gpu in held["gpus"]:
        value = {name: figure["value"] for name, figure in gpu["figures"].items()}
        if {"multiprocessors", "clock_mhz"} <= set(value):
            peak = value["multiprocessors"] * LANES[gpu["capability"]] * 2 * value["clock_mhz"] / 1e6
            assert value["fp32_tflops"] == pytest.approx(peak, rel=0.01), gpu["name"]
            compared += 1
        if "tensor_tf32_tflops" in value:
            assert value["tensor_tf32_tflops"] == pytest.approx(value["tensor_fp16_tflops"] / 2, rel=0.01), gpu["name"]
    assert compared >= 6
    for gpu, name, figure in figures(held):
        if found := SPARSE.search(figure["from"]):
            assert figure["value"] == float(found[1].replace(",", "")) / 2, (gpu, name)


def test_capabilities_keep_their_relations(held: dict[str, Any]) -> None:
    """As the vendor's header has them: what the driver takes of a block is missing from the most that it can have."""
    for name, c in held["capabilities"].items():
        assert c["shared_bytes_per_block"] == c["shared_bytes"] - c["reserved_bytes"], name
        assert c["registers"] == 65536 and c["threads"] % 32 == 0, name
        assert f"sm_{name.replace('.', '')}" in c["from"], name

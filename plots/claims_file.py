"""results/claims.json: what each source claimed of a rung and what became of it, for programs that show a rung.

`python -m plots.claims_file [RECORD...] --update results/claims.json` writes it; `--check results/claims.json` exits 1
where the file says anything but what the records say. Without a record: the committed ones of a GPU,
those of the sources' workloads among them. docs/ladder.md has the same verdicts as a table, and the rule that they
follow.
"""

from __future__ import annotations

import json
import sys

from plots.lib import outputs, schema, sources
from plots.lib.claims import RULE, judged
from plots.lib.inputs import in_sentences
from plots.lib.pages import keep_page, page_arguments
from plots.lib.record import Record, committed_for_sources

CLAIMS = outputs.Kind("file of claims", outputs.json_with("claims", "rule"))


def document(record: Record) -> str:
    found = []
    for source in sources.load_all():
        for claim in source.claims:
            v = judged(record, claim)
            ours = v.found or (v.gain.text if v.gain else "")
            found.append(
                {
                    "rung": claim.rung,
                    "over": claim.over,
                    "source": source.seed,
                    "claim": claim.text,
                    "stated": claim.stated,
                    "place": claim.place,
                    "ours": f"{ours}, {v.where}" if ours else None,
                    "verdict": v.verdict,
                    "why": claim.why.get(v.verdict),
                }
            )
    return json.dumps({"rule": RULE, "claims": found}, indent=1) + "\n"


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "results/claims.json", "all that are committed", generated=False)
    if arguments.update:
        outputs.need_place(arguments.page, CLAIMS, arguments.records)
    record = schema.of_one_machine(arguments.records, committed_for_sources)
    return keep_page(arguments, document(record), "python -m plots.claims_file")


if __name__ == "__main__":
    sys.exit(main())

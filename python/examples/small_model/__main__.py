"""A small model that is served by two engines through pagelift, and decodes the same as by one.

A prefill engine P computes a prompt. A decode engine D imports its blocks into a host pool of its own, lifts the last one as it is, and
decodes. New rows are mirrored, full pages are sealed, published, and given away; drafts are rejected; a request is preempted and
resumes; and another one finds blocks that the first has generated. An engine without any hand-off computes the same, and the logits of
every token must be equal, bit for bit.

    python small_model                          # with NumPy
    python small_model --torch                  # with PyTorch on a GPU, in a captured graph
    python small_model --torch cpu              # with PyTorch on the CPU
"""

import argparse
import dataclasses
import datetime
import json
import time

from arrays import NumPy, PyTorch
from serve import KINDS, PROMPTS, serve


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=300, help="tokens to generate for each request (300; 100 or more)")
    parser.add_argument("--torch", nargs="?", const="cuda", metavar="DEVICE", help="use PyTorch, on the GPU unless said")
    parser.add_argument("--json", metavar="FILE", help="write the results down")
    arguments = parser.parse_args()
    if arguments.tokens < 100:
        parser.error("expected 100 tokens or more: requests are sealed, preempted and found on the way")
    arrays = PyTorch(arguments.torch) if arguments.torch else NumPy()
    print(f"{arrays.name}, {arguments.tokens} tokens for each of two requests")
    cases = []
    for model, kinds in KINDS.items():
        for name, prompt in PROMPTS.items():
            began = time.monotonic()
            result = serve(arrays, kinds, prompt, arguments.tokens)
            cases.append({"model": model, "prompt": name, "prompt_tokens": prompt} | dataclasses.asdict(result))
            print(
                f"{model:9}  {name:9} {prompt:2} tokens: logits equal {result.equal[0]} + {result.equal[1]}, "
                f"{result.sealed} pages sealed, {result.preempted} preempted, {result.found} blocks found and {result.landed} "
                f"imported, {result.rejected} of {result.drafts} drafts rejected, {time.monotonic() - began:.1f} s",
                flush=True,
            )
    if arguments.json:
        date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        with open(arguments.json, "w") as file:
            json.dump({"date": date, "arrays": arrays.name, "captured": arrays.captures, "cases": cases}, file, indent=1)
            file.write("\n")
    if any(count != case["tokens"] for case in cases for count in case["equal"]):
        raise SystemExit("logits differ")


if __name__ == "__main__":
    main()

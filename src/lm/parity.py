"""What tokenizers and transformers say, for parity_test.cpp. Needs the Python packages of those names; prints "missing" without.

parity.py ids FOLDER FILE...        a JSON line a file: its token ids (invalid UTF-8 replaced), added tokens as written
parity.py logprobs FOLDER REQUEST   REQUEST holds {"prompt": ids, "tokens": ids}: log-probs and the likeliest token at each place
"""

import json
import pathlib
import sys


def ids(folder: str, files: list[str]) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    for name in files:
        text = pathlib.Path(name).read_bytes().decode("utf-8", errors="replace")
        print(json.dumps(tokenizer.encode(text, add_special_tokens=False).ids))


def logprobs(folder: str, request: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    ask = json.loads(pathlib.Path(request).read_text())
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt, tokens = ask["prompt"], ask["tokens"]
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
    logs = torch.log_softmax(logits.double(), -1)
    chosen = logs.gather(1, torch.tensor(tokens)[:, None])[:, 0]
    print(json.dumps({"logprobs": chosen.tolist(), "likeliest": logits.argmax(-1).tolist()}))


def main() -> int:
    try:
        if sys.argv[1] == "ids":
            ids(sys.argv[2], sys.argv[3:])
        else:
            logprobs(sys.argv[2], sys.argv[3])
    except ModuleNotFoundError as error:
        print("missing", error.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

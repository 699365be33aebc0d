"""Checks evidence of an aigw gateway (docs/evidence.md) with Python 3.8 or later and nothing else.

  python3 verify_receipt.py receipt RECEIPT.json KEYS.json            keys: what /.well-known/aigw-keys.json answers
  python3 verify_receipt.py proof PROOF.json CHECKPOINT.txt KEYS.json   proof: what /transparency/proofs/inclusion does

Exit codes: 0 valid, 1 invalid, 2 an argument or the key file cannot be used. The keys are always named separately, so
this script never ends with 11, which verify_export.py and verify.mjs use for "only by the keys that came with it".
"""

import argparse
import base64
import hashlib
import json
import re
import sys
from decimal import Decimal

REFUSALS = (ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError)
MARK = "\u2014 "
P, Q = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P

def sha256(data):
    return hashlib.sha256(data).digest()

def check(holds, problem):
    if not holds:
        raise ValueError(problem)

# Python's decoders accept several notations of hex and base64. These functions accept only the canonical notation.
def unhex(text):
    check(re.fullmatch("[0-9a-f]{64}", text), "a hash is none")
    return bytes.fromhex(text)

def unbase64(text, altchars=None):
    data = base64.b64decode(text, altchars)
    check(base64.b64encode(data, altchars).decode() == text, "a text is not base64 as it is written")
    return data

def members(pairs):
    check(len(dict(pairs)) == len(pairs), "a member stands twice")
    return dict(pairs)

def refuse(constant):
    raise ValueError("%s is none of JSON" % constant)

def parse(text):
    return json.loads(text, parse_int=float, parse_constant=refuse, object_pairs_hook=members)

# Ed25519 (RFC 8032, 5.1). Points are (X, Y, Z, T) with x = X/Z, y = Y/Z and xy = T/Z. Verification uses no secret, so it
# need not run in constant time.
def decompress(data):
    number = int.from_bytes(data, "little")
    y, odd = number & (1 << 255) - 1, number >> 255
    x2 = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    check(y < P and (x * x - x2) % P == 0 and not (x == 0 and odd), "a key or a signature is not a point")
    x = x if x & 1 == odd else P - x
    return (x, y, 1, x * y % P)

def add(one, other):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = one, other
    a, b = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * D * t1 * t2 % P, 2 * z1 * z2 % P
    return ((b - a) * (d - c) % P, (d + c) * (b + a) % P, (d - c) * (d + c) % P, (b - a) * (b + a) % P)

def multiply(factor, point):
    total = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            total = add(total, point)
        point, factor = add(point, point), factor >> 1
    return total

def is_same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0

BASE = decompress((4 * pow(5, -1, P) % P).to_bytes(32, "little"))

def check_key(public_key):
    check(len(public_key) == 32 and not is_same(multiply(8, decompress(public_key)), (0, 1, 1, 0)), "a key is of small order")

def check_signature(public_key, text, signature):
    s = int.from_bytes(signature[32:], "little")
    check(len(signature) == 64 and s < Q, "the signature is wrong")
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + text).digest(), "little") % Q
    right = add(decompress(signature[:32]), multiply(k, decompress(public_key)))
    check(is_same(multiply(s, BASE), right), "the signature is wrong")

# Canonical JSON (RFC 8785): members are sorted by UTF-16 code units, and numbers are formatted as in ECMAScript.
def number(value):
    check(value == value and abs(value) != float("inf"), "a number is none of JSON")
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return format(Decimal(repr(value or 0.0)).normalize(), "f")
    return re.sub("e([+-])0", r"e\1", repr(value))

def count(value):
    check(isinstance(value, float) and 0 <= value < 2**53 and value.is_integer(), "an index or a size is none")
    return int(value)

def canonical(value):
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)

# Trees (RFC 9162, 2.1.3.2). Above the node where the paths of this leaf and of the last leaf
# meet, each sibling is on the left.
def root_of(leaf, index, size, path):
    index, size = count(index), count(size)
    meet = (index ^ size - 1).bit_length()
    check(index < size and isinstance(path, list) and len(path) == meet + bin(index >> meet).count("1"), "the path does not fit")
    for height, node in enumerate(map(unhex, path)):
        is_left = height >= meet or index >> height & 1
        leaf = sha256(b"\x01" + (node + leaf if is_left else leaf + node))
    return leaf

def check_receipt(receipt, keys):
    receipt = receipt if receipt.get("receipt") is None else receipt["receipt"]
    entry, proof, alg, kid, signer, signature = map(receipt.pop, ("entry", "proof", "alg", "kid", "signer", "signature"))
    covered = ("tenant_id", "chain", "seq", "id", "created_at", "prev_hash", "payload_hash")
    check(set(entry) == {*covered, "entry_hash"}, "the entry has other members")
    check(set(proof) == {"origin", "tree_size", "leaf_index", "path", "root"}, "the proof has other members")
    check(sha256(canonical(receipt).encode()) == unhex(entry["payload_hash"]), "the contents are not those of payload_hash")
    unhex(entry["prev_hash"])
    texts = ["aigw-entry-v1"] + [str(count(entry[name])) if name == "seq" else entry[name] for name in covered]
    leaf = sha256(b"\x00" + b"".join(b"%d:%s," % (len(text.encode()), text.encode()) for text in texts))
    check(leaf == unhex(entry["entry_hash"]), "entry_hash is wrong")
    root = root_of(leaf, proof["leaf_index"], proof["tree_size"], proof["path"])
    check(root == unhex(proof["root"]), "the path does not lead to the root")
    check(alg == "Ed25519" and kid in keys and keys[kid][0] == signer, "it is not signed with a key that is trusted")
    start = signer + "/commits/"
    check(proof["origin"].startswith(start) and proof["origin"] != start, "the origin is not a commit of the signer")
    text = "%s\n%d\n%s\n" % (proof["origin"], proof["tree_size"], base64.b64encode(root).decode())
    check_signature(keys[kid][1], text.encode(), unbase64(signature))
    return "the receipt of %s, entry %d of %s, signed by %s" % (entry["id"], entry["seq"], entry["chain"], signer)

# A file may have notes of other logs and sizes: text, an empty line, lines that begin with a dash.
def notes_in(text):
    note, is_signed = [], False
    for line in re.split("\r?\n", text) + [""]:
        is_signature = line.startswith(MARK)
        if not is_signature if is_signed else line and not is_signature and note[-1:] == [""]:
            if len(note[-1]) - note[-1].rfind(" ") > 92:
                yield "\n".join(note) + "\n"
            note, is_signed = [], False
        if line or note:
            note.append(line)
            is_signed = is_signed or is_signature

# Returns the names of the trusted keys that signed the note. Signatures of other keys are not checked.
def check_checkpoint(note, keys):
    text, _, lines = note[:-1].rpartition("\n\n")
    origin, size, root, *extensions = text.split("\n")
    check(origin and "" not in extensions and re.fullmatch("0|[1-9][0-9]*", size), "a text is not a checkpoint")
    check(int(size) < 2**53 and len(unbase64(root)) == 32, "a text is not a checkpoint")
    check(lines.count("\n") < 100, "a note has more than 100 signatures")
    signers = []
    for line in lines.split("\n"):
        mark, signer, signature = line.split(" ")
        blob = unbase64(signature)
        check(mark + " " == MARK and len(blob) > 4 and is_name(signer), "a signature line is broken")
        for name, key in keys.values():
            if name == signer and sha256(name.encode() + b"\n\x01" + key)[:4] == blob[:4]:
                check_signature(key, (text + "\n").encode(), blob[4:])
                signers.append(name)
    return origin, int(size), root, signers

def check_proof(proof, notes, keys):
    size, root = count(proof["size"]), root_of(unhex(proof["entry_hash"]), proof["index"], proof["size"], proof["path"])
    found = None
    for note in notes_in(notes):
        origin, *head, signers = check_checkpoint(note, keys)
        # The signature of a commit or of an export has the same form as a checkpoint. Only its origin differs.
        is_log = any(re.fullmatch(re.escape(name) + "/logs/[0-9a-f]{32}", origin) for name in signers)
        if is_log and head == [size, base64.b64encode(root).decode()]:
            found = "entry %d is in %s, signed by %s" % (proof["index"], origin, ", ".join(signers))
    check(found, "no checkpoint has the size and root of the proof, and the signature of a key that is trusted")
    return found

def read(name, encoding="utf-8-sig", errors="strict"):
    with open(name, encoding=encoding, errors=errors, newline="") as file:
        return file.read()

def is_name(text):
    return re.fullmatch(r"[^\s+\x00-\x1f\x7f-\x9f\ufeff]+", text) is not None

def read_keys(name):
    keys = {}
    for key in parse(read(name))["keys"]:
        public_key = unbase64(key["x"] + "=", b"-_")
        kid = base64.urlsafe_b64encode(sha256(b'{"crv":"Ed25519","kty":"OKP","x":"%s"}' % key["x"].encode())).decode().rstrip("=")
        check((key["kty"], key["crv"], key["kid"]) == ("OKP", "Ed25519", kid), "a key is not Ed25519, or has another kid")
        check(is_name(key["name"]), "a key has no valid signer name")
        times = [key["created_at"]] + [time for time in [key.get("retired_at")] if time is not None]
        check(all(isinstance(time, str) for time in times), "a key has no valid times")
        check_key(public_key)
        keys[kid] = (key["name"], public_key)
    check(keys, "it has no keys")
    return keys

def main(arguments):
    layout = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = argparse.ArgumentParser(description=__doc__, **layout)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, files in (("receipt", ("RECEIPT.json",)), ("proof", ("PROOF.json", "CHECKPOINT.txt"))):
        command = kinds.add_parser(kind, **layout)
        for name in (*files, "KEYS.json"):
            command.add_argument(name)
    given = vars(parser.parse_args(arguments))
    try:
        keys = read_keys(given["KEYS.json"])
    except REFUSALS as error:
        parser.error("%s holds no keys that can be used: %s" % (given["KEYS.json"], error))
    if given["kind"] == "receipt":
        return check_receipt(parse(read(given["RECEIPT.json"])), keys)
    # A crash may have cut a note of the file within a character.
    return check_proof(parse(read(given["PROOF.json"])), read(given["CHECKPOINT.txt"], "utf-8", "replace"), keys)

if __name__ == "__main__":
    try:
        print("ok: " + main(sys.argv[1:]))
    except REFUSALS as error:
        sys.exit("FAIL: %s" % error)

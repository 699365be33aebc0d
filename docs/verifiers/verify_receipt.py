"""Checks evidence of an aigw gateway (docs/evidence.md) with Python 3.8 or later and nothing else.

  python3 verify_receipt.py receipt RECEIPT.json KEYS.json            keys: what /.well-known/aigw-keys.json answers
  python3 verify_receipt.py proof PROOF.json CHECKPOINT.txt KEYS.json   proof: what /transparency/proofs/inclusion does

Exit codes: 0 valid, 1 invalid, 2 an argument or the key file cannot be used.
"""

import argparse
import base64
import hashlib
import json
import re
import sys
from decimal import Decimal

REFUSALS = (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError)
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

def parse(text):
    return json.loads(text, parse_int=float, object_pairs_hook=members)

# Ed25519 (RFC 8032, 5.1). Points are (x, y). Verification uses no secret, so it need not run in constant time.
def decompress(data):
    number = int.from_bytes(data, "little")
    y, odd = number & (1 << 255) - 1, number >> 255
    x2 = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    check(y < P and (x * x - x2) % P == 0 and not (x == 0 and odd), "a key or a signature is not a point")
    return (x if x & 1 == odd else P - x, y)

def add(a, b):
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2 % P
    return ((x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P)

def multiply(factor, point):
    total = (0, 1)
    while factor:
        if factor & 1:
            total = add(total, point)
        point, factor = add(point, point), factor >> 1
    return total

BASE = decompress((4 * pow(5, -1, P) % P).to_bytes(32, "little"))

def check_signature(public_key, text, signature):
    s = int.from_bytes(signature[32:], "little")
    check(len(public_key) == 32 and len(signature) == 64 and s < Q, "the signature is wrong")
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + text).digest(), "little") % Q
    check(multiply(s, BASE) == add(decompress(signature[:32]), multiply(k, decompress(public_key))), "the signature is wrong")

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
    check(proof["origin"].startswith(signer + "/commits/"), "the origin is not a commit of the signer")
    text = "%s\n%d\n%s\n" % (proof["origin"], proof["tree_size"], base64.b64encode(root).decode())
    check_signature(keys[kid][1], text.encode(), unbase64(signature))
    return "the receipt of %s, entry %d of %s, signed by %s" % (entry["id"], entry["seq"], entry["chain"], signer)

def check_proof(proof, notes, keys):
    root = root_of(unhex(proof["entry_hash"]), proof["index"], proof["size"], proof["path"])
    head = ["%d" % proof["size"], base64.b64encode(root).decode()]
    # Reads all notes, including those of other logs and sizes: text, an empty line, lines that begin with a dash.
    for text, lines in re.findall("((?:(?!\u2014 ).+\n)+)\n((?:\u2014 .+\n)+)", notes):
        for name, key in keys.values() if text.split("\n")[1:3] == head else ():
            blob = sha256(name.encode() + b"\n\x01" + key)[:4]
            for line in lines.splitlines():
                _, signer, signature = line.split(" ")
                if unbase64(signature)[:4] == blob and signer == name:
                    check_signature(key, text.encode(), unbase64(signature)[4:])
                    return "entry %d is in %s, signed by %s" % (proof["index"], text.split("\n")[0], name)
    raise ValueError("no checkpoint has the size and root of the proof, and the signature of a key that is trusted")

def read(name):
    with open(name, encoding="utf-8", newline="") as file:
        return file.read()

def read_keys(name):
    keys = {}
    for key in json.loads(read(name), object_pairs_hook=members)["keys"]:
        jwk = '{"crv":"Ed25519","kty":"OKP","x":"%s"}' % key["x"]
        kid = base64.urlsafe_b64encode(sha256(jwk.encode())).rstrip(b"=").decode()
        check((key["kty"], key["crv"], key["kid"]) == ("OKP", "Ed25519", kid), "a key is not Ed25519, or has another kid")
        keys[kid] = (key["name"], unbase64(key["x"] + "=", b"-_"))
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
    return check_proof(parse(read(given["PROOF.json"])), read(given["CHECKPOINT.txt"]), keys)

if __name__ == "__main__":
    try:
        print("ok: " + main(sys.argv[1:]))
    except REFUSALS as error:
        sys.exit("FAIL: %s" % error)

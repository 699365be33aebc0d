"""Checks evidence of an aigw gateway (docs/evidence.md) with Python 3.8 or later and nothing else; ends with 1 unless it holds.

  python3 verify_receipt.py receipt RECEIPT.json KEYS.json            keys: what /.well-known/aigw-keys.json answers
  python3 verify_receipt.py proof PROOF.json CHECKPOINT.txt KEYS.json   proof: what /transparency/proofs/inclusion does
"""

import base64
import hashlib
import json
import re
import sys
from decimal import Decimal

REFUSALS = (ValueError, KeyError, TypeError, AttributeError, OSError)
P, Q = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P

def sha256(data):
    return hashlib.sha256(data).digest()

def check(holds, problem):
    if not holds:
        raise ValueError(problem)

# Ed25519 (RFC 8032, 5.1). Points are (x, y); there is no secret here that the time taken could tell.
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

def is_signed(public_key, text, signature):
    if len(public_key) != 32 or len(signature) != 64 or int.from_bytes(signature[32:], "little") >= Q:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + text).digest(), "little") % Q
    expected = add(decompress(signature[:32]), multiply(k, decompress(public_key)))
    return multiply(int.from_bytes(signature[32:], "little"), BASE) == expected

# Canonical JSON (RFC 8785): members by UTF-16 code units, numbers as ECMAScript writes a double.
def number(value):
    check(value == value and abs(value) != float("inf"), "a number is none of JSON")
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:
        return format(Decimal(repr(value)).normalize(), "f")
    return re.sub("e([+-])0", r"e\1", repr(value))

def count(value):
    check(isinstance(value, float) and value >= 0 and value.is_integer(), "an index or a size is none")
    return int(value)

def canonical(value):
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)

# Trees (RFC 9162, 2.1.3.2).
def root_of(leaf, index, size, path):
    check(0 <= index < size, "the index is not in the tree")
    last, root = size - 1, leaf
    for node in path:
        check(last > 0, "the path is too long")
        if index & 1 or index == last:
            root = sha256(b"\x01" + node + root)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            root = sha256(b"\x01" + root + node)
        index, last = index >> 1, last >> 1
    check(last == 0, "the path is too short")
    return root

def head_text(origin, size, root):
    return ("%s\n%d\n%s\n" % (origin, size, base64.b64encode(root).decode())).encode()

def check_receipt(receipt, keys):
    names = ("entry", "proof", "alg", "kid", "signer", "signature")
    entry, proof, alg, kid, signer, signature = (receipt.pop(name) for name in names)
    covered = ("tenant_id", "chain", "seq", "id", "created_at", "prev_hash", "payload_hash")
    check(set(entry) == {*covered, "entry_hash"}, "the entry has other members")
    check(set(proof) == {"origin", "tree_size", "leaf_index", "path", "root"}, "the proof has other members")
    check(sha256(canonical(receipt).encode()).hex() == entry["payload_hash"], "the contents are not those of payload_hash")
    texts = ["aigw-entry-v1"] + [str(count(entry[name])) if name == "seq" else entry[name] for name in covered]
    fields = b"".join(b"%d:%s," % (len(text.encode()), text.encode()) for text in texts)
    leaf = sha256(b"\x00" + fields)
    check(leaf.hex() == entry["entry_hash"], "entry_hash is wrong")
    size = count(proof["tree_size"])
    root = root_of(leaf, count(proof["leaf_index"]), size, [bytes.fromhex(node) for node in proof["path"]])
    check(root.hex() == proof["root"], "the path does not lead to the root")
    check(alg == "Ed25519" and kid in keys and keys[kid][0] == signer, "it is not signed with a key that is trusted")
    check(proof["origin"].startswith(signer + "/commits/"), "the origin is not a commit of the signer")
    text = head_text(proof["origin"], size, root)
    check(is_signed(keys[kid][1], text, base64.b64decode(signature, validate=True)), "the signature is wrong")
    return "the receipt of %s, entry %d of %s, signed by %s" % (entry["id"], entry["seq"], entry["chain"], signer)

def check_proof(proof, notes, keys):
    leaf, index, size = bytes.fromhex(proof["entry_hash"]), count(proof["index"]), count(proof["size"])
    root = root_of(leaf, index, size, [bytes.fromhex(node) for node in proof["path"]])
    head = [str(size), base64.b64encode(root).decode()]
    # One note after the other, also of other logs and sizes: text, empty line, lines that begin with a dash.
    for text, lines in re.findall("((?:(?!\u2014 ).+\n)+)\n((?:\u2014 .+\n)+)", notes):
        for name, key in keys.values() if text.split("\n")[1:3] == head else ():
            blob = sha256(name.encode() + b"\n\x01" + key)[:4]
            for line in lines.splitlines():
                signature = base64.b64decode(line.rpartition(" ")[2])
                if line.startswith("\u2014 " + name + " ") and signature[:4] == blob:
                    check(is_signed(key, text.encode(), signature[4:]), "the signature is wrong")
                    return "entry %d is in %s, signed by %s" % (index, text.split("\n")[0], name)
    raise ValueError("no checkpoint has the size and root of the proof, and the signature of a key that is trusted")

def main(kind, *files):
    texts = [open(name, encoding="utf-8", newline="").read() for name in files]
    keys = {}
    for key in json.loads(texts.pop())["keys"]:
        thumbprint = sha256(('{"crv":"Ed25519","kty":"OKP","x":"%s"}' % key["x"]).encode())
        check(base64.urlsafe_b64encode(thumbprint).rstrip(b"=").decode() == key["kid"], "a kid is not that of its key")
        keys[key["kid"]] = (key["name"], base64.urlsafe_b64decode(key["x"] + "="))
    value = json.loads(texts[0], parse_int=float)
    return check_receipt(value, keys) if kind == "receipt" else check_proof(value, texts[1], keys)

if __name__ == "__main__":
    try:
        check(len(sys.argv) > 3, "it needs more to check\n\n" + __doc__)
        print("ok: " + main(*sys.argv[1:]))
    except REFUSALS as error:
        sys.exit("FAIL: %s" % error)

"""Checks evidence of an aigw gateway (docs/evidence.md) with Python 3.8 or later and nothing else.

  python3 verify_receipt.py receipt RECEIPT.json KEYS.json            keys: what /.well-known/aigw-keys.json answers
  python3 verify_receipt.py proof PROOF.json CHECKPOINT.txt KEYS.json   proof: what /transparency/proofs/inclusion does
  python3 verify_receipt.py bundle BUNDLE.json KEYS.json [POLICY.txt]   policy: which witnesses must have cosigned

Exit codes: 0 valid, 1 invalid, 2 an argument or the key file cannot be used. The keys are always named separately, so
this script never ends with 11, which verify_export.py and verify.mjs use for "only by the keys that came with it".
"""

import argparse
import base64
import hashlib
import json
import re
import sys
from datetime import datetime, timedelta, timezone
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

# A key signs from its creation to its retirement. Clocks may differ by five minutes. The first key of a store also
# signs older entries.
SLACK = timedelta(minutes=5)

def time(text):
    check(re.fullmatch(r"[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text, re.ASCII), "a time has another notation")
    return datetime.fromisoformat(text[:-1] + "+00:00")

# The order in which a gateway used its keys. The retirements never go back, but a corrected clock does.
def order_of(kid, keys):
    _, _, start, end = keys[kid]
    return (end is None, start if end is None else end, start)

def check_window(kid, keys, at):
    _, _, start, end = keys[kid]
    is_first, signed = order_of(kid, keys) == min(order_of(other, keys) for other in keys), time(at)
    check(is_first or signed >= start - SLACK, "the key of the signature was not valid yet")
    check(end is None or signed <= end + SLACK, "the key of the signature was not valid any more")

def check_retirement(kids, keys, at):
    ends = [keys[kid][3] for kid in kids]
    check(None in ends or time(at) <= max(ends) + SLACK, "the keys of a checkpoint were retired before its last entry")

# Which witnesses must cosign (C2SP tlog-policy). The lines "valid <witness> <from> <until>" are an extension.
def read_policy(text):
    witnesses, groups, grouped, quorum = {}, {}, set(), None
    lines = text.split("\n")
    check(len(lines) <= 1000 and "\0" not in text, "it has too many lines, or is not text")
    for words in (re.split("[ \t]+", line.strip(" \t")) for line in lines):
        keyword, names = words[0], words[1:]
        if not keyword or keyword.startswith("#"):
            continue
        new = names[0] if names else ""
        is_new = new not in ("", "none") and new not in witnesses and new not in groups
        if keyword == "witness":
            found = re.fullmatch(r"([^+\s\x00-\x1f\x7f-\x9f\ufeff]{1,256})\+([0-9a-f]{8})\+(\S{1,2048})", names[1])
            check(is_new and len(names) in (2, 3) and found, "a witness needs a name of its own and a key")
            key = unbase64(found[3])
            check(len(key) == 33 and key[0] == 4, "a key is not the key of a witness")
            check_key(key[1:])
            check(sha256(found[1].encode() + b"\n" + key)[:4].hex() == found[2], "a key has another hash")
            check(all(other[1] != key[1:] for other in witnesses.values()), "two witnesses have the same key")
            witnesses[new] = (found[1], key[1:], None, None)
        elif keyword == "group":
            members = names[2:]
            check(is_new and members, "a group needs a name of its own and members")
            for name in members:
                check((name in witnesses or name in groups) and name not in grouped, "a member is unknown, or in a group already")
                grouped.add(name)
            threshold = {"all": len(members), "any": 1}.get(names[1])
            check(threshold or re.fullmatch("[1-9][0-9]{0,3}", names[1]), "a group needs all, any, or a number")
            groups[new] = (threshold or int(names[1]), members)
            check(groups[new][0] <= len(members), "a group has fewer members than it needs")
        elif keyword == "valid":
            check(len(names) == 3 and new in witnesses, "valid has the name of a witness, and two times")
            for one in names[1:]:
                check(one == "-" or re.fullmatch(r"[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", one, re.ASCII), "a time has another notation")
            start, end = (None if one == "-" else datetime.fromisoformat(one[:-1] + "+00:00") for one in names[1:])
            check(start is None or end is None or start < end, "the second time must be after the first")
            witnesses[new] = (*witnesses[new][:2], start, end)
        else:
            check(keyword == "quorum" and quorum is None and len(names) == 1, "a line is unknown, or there are two quorums")
            check(new == "none" or new in witnesses or new in groups, "the quorum is unknown")
            quorum = new
    check(quorum, "it has no quorum")
    return witnesses, groups, quorum

# Returns the witnesses that have cosigned a note (C2SP tlog-cosignature), if they satisfy the policy, or None.
def cosigners_of(note, keys, kids, policy):
    witnesses, groups, quorum = policy
    text, _, lines = note[:-1].rpartition("\n\n")
    found = set()
    for line in lines.split("\n"):
        _, signer, encoded = line.split(" ")
        blob = unbase64(encoded)
        for name, (key_name, key, start, end) in witnesses.items():
            if signer != key_name or blob[:4] != sha256(key_name.encode() + b"\n\x04" + key)[:4]:
                continue
            seconds = int.from_bytes(blob[4:12], "big")
            check(len(blob) == 76 and seconds < 2**53 // 1000, "a cosignature is wrong")
            check_signature(key, b"cosignature/v1\ntime %d\n%s\n" % (seconds, text.encode()), blob[12:])
            at = float(seconds)
            is_in_time = at <= datetime.now(timezone.utc).timestamp() + SLACK.total_seconds()
            is_in_time = is_in_time and (start is None or at >= start.timestamp()) and (end is None or at <= end.timestamp())
            windows = [keys[kid][2:4] for kid in kids]
            if is_in_time and any(at >= (a - SLACK).timestamp() and (b is None or at <= (b + SLACK).timestamp()) for a, b in windows):
                found.add(name)

    def is_met(name):
        threshold, members = groups.get(name, (1, []))
        return name in found if name not in groups else sum(map(is_met, members)) >= threshold
    return found if quorum == "none" or is_met(quorum) else None

# A receipt with a proof that a checkpoint of its log covers it (C2SP tlog-proof).
def check_bundle(bundle, keys, policy):
    bundle = bundle if bundle.get("bundle") is None else bundle["bundle"]
    check(set(bundle) == {"receipt", "tlog_proof"}, "the bundle has other members")
    entry = dict(bundle["receipt"]["entry"])
    kid = bundle["receipt"]["kid"]
    said = check_receipt(bundle["receipt"], keys)
    head, _, note = bundle["tlog_proof"].partition("\n\n")
    first, index, *path = head.split("\n")
    check(first == "c2sp.org/tlog-proof@v1" and index == "index %d" % entry["seq"], "the proof is of another entry")
    check(note.endswith("\n"), "a note is not signed")
    origin, size, root, signers, kids = check_checkpoint(note, keys)
    check(signers, "the checkpoint is not signed with a key that is trusted")
    log = sha256(b"".join(b"%d:%s," % (len(text.encode()), text.encode()) for text in (entry["tenant_id"], entry["chain"]))).hex()[:32]
    check(any(origin == "%s/logs/%s" % (name, log) for name in signers), "the checkpoint belongs to another log")
    check_retirement(kids, keys, entry["created_at"])
    check(max(order_of(one, keys) for one in kids) >= order_of(kid, keys), "the key of the checkpoint is older than the key of the entry")
    nodes = [unbase64(node).hex() for node in path]
    check(base64.b64encode(root_of(unhex(entry["entry_hash"]), entry["seq"], float(size), nodes)).decode() == root, "the path does not lead to the root")
    found = cosigners_of(note, keys, kids, policy) if policy else []
    check(found is not None, "the checkpoint lacks cosignatures that the policy demands")
    return "%s; a checkpoint of %d entries covers it, cosigned by %s" % (said, size, ", ".join(sorted(found)) or "no witness that was demanded")

# Only the response around a receipt is removed: a receipt within the receipt of a bundle would be another one.
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
    start = signer + "/commits/"
    check(proof["origin"].startswith(start) and proof["origin"] != start, "the origin is not a commit of the signer")
    text = "%s\n%d\n%s\n" % (proof["origin"], proof["tree_size"], base64.b64encode(root).decode())
    check_signature(keys[kid][1], text.encode(), unbase64(signature))
    check_window(kid, keys, entry["created_at"])
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
    signers, kids = [], []
    for line in lines.split("\n"):
        mark, signer, signature = line.split(" ")
        blob = unbase64(signature)
        check(mark + " " == MARK and len(blob) > 4 and is_name(signer), "a signature line is broken")
        for kid, (name, key, *_) in keys.items():
            if name == signer and sha256(name.encode() + b"\n\x01" + key)[:4] == blob[:4]:
                check_signature(key, (text + "\n").encode(), blob[4:])
                signers.append(name)
                kids.append(kid)
    return origin, int(size), root, signers, kids

def check_proof(proof, notes, keys):
    size, root = count(proof["size"]), root_of(unhex(proof["entry_hash"]), proof["index"], proof["size"], proof["path"])
    found = None
    for note in notes_in(notes):
        origin, *head, signers, _ = check_checkpoint(note, keys)
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
        retired_at = key.get("retired_at")
        window = (time(key["created_at"]), None if retired_at is None else time(retired_at))
        check_key(public_key)
        check(kid not in keys, "a key stands twice")
        keys[kid] = (key["name"], public_key, *window)
    check(keys, "it has no keys")
    return keys

def main(arguments):
    layout = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = argparse.ArgumentParser(description=__doc__, **layout)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, files in (("receipt", ("RECEIPT.json",)), ("proof", ("PROOF.json", "CHECKPOINT.txt")), ("bundle", ("BUNDLE.json",))):
        command = kinds.add_parser(kind, **layout)
        for name in (*files, "KEYS.json"):
            command.add_argument(name)
        if kind == "bundle":
            command.add_argument("POLICY.txt", nargs="?")
    given = vars(parser.parse_args(arguments))
    try:
        keys = read_keys(given["KEYS.json"])
    except REFUSALS as error:
        parser.error("%s holds no keys that can be used: %s" % (given["KEYS.json"], error))
    if given["kind"] == "receipt":
        receipt = parse(read(given["RECEIPT.json"]))
        return check_receipt(receipt if receipt.get("receipt") is None else receipt["receipt"], keys)
    if given["kind"] == "bundle":
        try:
            policy = None if given["POLICY.txt"] is None else read_policy(read(given["POLICY.txt"]))
        except REFUSALS as error:
            parser.error("%s is no policy: %s" % (given["POLICY.txt"], error))
        return check_bundle(parse(read(given["BUNDLE.json"])), keys, policy)
    # A crash may have cut a note of the file within a character.
    return check_proof(parse(read(given["PROOF.json"])), read(given["CHECKPOINT.txt"], "utf-8", "replace"), keys)

if __name__ == "__main__":
    try:
        print("ok: " + main(sys.argv[1:]))
    except REFUSALS as error:
        sys.exit("FAIL: %s" % error)

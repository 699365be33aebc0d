"""Checks an export of evidence of an aigw gateway (docs/evidence.md) with Python 3.8 or later and nothing else.

  python3 verify_export.py DIR --keys KEYS.json   keys: what /.well-known/aigw-keys.json answers
  python3 verify_export.py DIR                    trusts the keys of the export, which anyone could have made
  --policy POLICY.txt                             the witnesses that must have cosigned every chain up to its end

verify_receipt.py must be in the same directory. Both are independent of verify.mjs, and slower: about 300 signatures a
second. Exit codes: 0 valid, 1 invalid, 2 an argument or the key file cannot be used, 11 the export is consistent, but
only by the keys that came with it.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import sys
from datetime import datetime, timedelta, timezone

from verify_receipt import (MARK, REFUSALS, check, check_checkpoint, check_retirement, check_signature, check_window,
                            cosigners_of, count, members, number, order_of, parse, read, read_keys, read_policy,
                            refuse, sha256, SLACK, time, unbase64, unhex)

COVERED = ["data.ndjson", "data.csv", "commits.ndjson", "checkpoints.ndjson", "keys.json", "README.txt", "verify.mjs"]
OTHERS = ["manifest.json", "statement.json", "manifest.sig"]
ROW = ["tenant_id", "chain", "seq", "id", "created_at", "payload", "payload_hash", "entry_hash", "commit_id", "leaf_index"]
COMMIT = ["id", "created_at", "kid", "signer", "tree_size", "root", "leaves", "signature"]
# Without cosignature, entries are accepted for this time: until the checkpoint, and until the witnesses have responded.
UNCOSIGNED = timedelta(minutes=70)
CSV_HEAD = "Entry ID,Timestamp,Event,Actor,Status,Details\r\n"

def only(value, names, optional=()):
    check(isinstance(value, dict) and set(names) - set(optional) <= set(value) <= set(names), "an object has other members")
    return value

def texts(value, names):
    check(all(isinstance(value[name], str) for name in names), "a text is none")

def leaf_hash(*values):
    return sha256(b"\x00" + b"".join(b"%d:%s," % (len(value.encode()), value.encode()) for value in values))

def tree_root(nodes):
    if not nodes:
        return sha256(b"")
    while len(nodes) > 1:
        pairs = [sha256(b"\x01" + nodes[at] + nodes[at + 1]) for at in range(0, len(nodes) - 1, 2)]
        nodes = pairs + nodes[len(pairs) * 2:]
    return nodes[0]

def base64_of(data):
    return base64.b64encode(data).decode()

def read_json(folder, name):
    return parse(read(os.path.join(folder, name), "utf-8"))

# A line must be what JSON.stringify writes for its value.
def lines_of(folder, name):
    text = read(os.path.join(folder, name), "utf-8")
    check(text == "" or text.endswith("\n"), "%s does not end with a newline" % name)
    for line in text.split("\n")[:-1]:
        value = json.loads(line, parse_constant=refuse, object_pairs_hook=members)
        check(json.dumps(value, ensure_ascii=False, separators=(",", ":")) == line, "a line of %s is written otherwise" % name)
        yield value

def whole(value):
    check(type(value) is int and 0 <= value < 2**53, "a number is none")
    return value

# The texts of a payload as ECMAScript turns them into strings.
def cell_of(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(cell_of, value))
    return "" if value is None else "[object Object]" if isinstance(value, dict) else number(value) if isinstance(value, float) else value

def csv_line(row):
    content = {} if row["payload"] is None else json.loads(row["payload"], parse_int=float, parse_constant=refuse)
    check(isinstance(content, dict), "a payload is not an object")
    at = lambda name: cell_of(content.get(name))
    status = "EXPUNGED" if row["payload"] is None else "SUCCESS" if at("result") == "success" else "ERROR"
    actor = "operator" if at("actor") == "operator" else at("user_id")
    event = "expunged" if row["payload"] is None else at("type")
    cells = [row["id"], row["created_at"], event, actor, status, row["payload"] or ""]
    cells = ["'" + cell if re.match(r"[=+\-@\t\r]", cell) else cell for cell in cells]
    return ",".join('"%s"' % cell.replace('"', '""') if re.search('[",\r\n]', cell) else cell for cell in cells) + "\r\n"

def check_manifest(folder, keys):
    manifest, signed, stated = (read_json(folder, name) for name in ("manifest.json", "manifest.sig", "statement.json"))
    only(manifest, ["version", "created_at", "tenant_id", "chains", "rowCount", "merkleRootOfExport", "signingKeyFingerprint", "files"])
    check(count(manifest["version"]) == 2, "manifest.json is of another version")
    texts(manifest, ["created_at", "tenant_id", "merkleRootOfExport", "signingKeyFingerprint"])
    texts(only(signed, ["kid", "name", "note", "signature"]), signed)
    kid, name = signed["kid"], signed["name"]
    check(kid in keys and keys[kid][0] == name and kid == manifest["signingKeyFingerprint"], "it is not signed with a key that is trusted")
    with open(os.path.join(folder, "statement.json"), "rb") as file:
        origin = "%s/exports/%s" % (name, hashlib.sha256(file.read()).hexdigest())
    text = "%s\n%d\n%s\n" % (origin, count(manifest["rowCount"]), base64_of(unhex(manifest["merkleRootOfExport"])))
    signature = unbase64(signed["signature"])
    check_signature(keys[kid][1], text.encode(), signature)
    line = base64_of(sha256(name.encode() + b"\n\x01" + keys[kid][1])[:4] + signature)
    check(signed["note"] == "%s\n%s%s %s\n" % (text, MARK, name, line), "its note does not match its signature")
    check_window(kid, keys, stated["signed_at"])
    return manifest, check_statement(folder, manifest, stated), stated["signed_at"]

def check_statement(folder, manifest, stated):
    only(stated, ["version", "signed_at", "tenant_id", "manifest_sha256", "chains", "losses"], ["losses"])
    texts(stated, ["signed_at", "tenant_id", "manifest_sha256"])
    with open(os.path.join(folder, "manifest.json"), "rb") as file:
        check(stated["manifest_sha256"] == hashlib.sha256(file.read()).hexdigest(), "the statement belongs to another manifest")
    check(count(stated["version"]) == 1 and stated["tenant_id"] == manifest["tenant_id"], "the statement belongs to another tenant")
    for chain in stated["chains"]:
        only(chain, ["chain", "entries", "size", "expunged", "expunged_sha256", "checkpoints", "checkpoints_sha256"])
        for name in ("entries", "size", "expunged", "checkpoints"):
            count(chain[name])
        unhex(chain["expunged_sha256"]), unhex(chain["checkpoints_sha256"])
        texts(chain, ["chain"])
    losses = stated.get("losses", [])
    check(isinstance(losses, list) and (losses or "losses" not in stated), "the losses are no list")
    for loss in losses:
        texts(only(loss, ["chain", "cause", "found_at", "acknowledged_at", "successor"]), ["chain", "cause", "found_at"])
        texts(loss, [name for name in ("acknowledged_at", "successor") if loss[name] is not None])
    sizes = [(chain["chain"], chain["size"]) for chain in stated["chains"] if chain["size"] > 0]
    check(sizes == [(chain["chain"], chain["size"]) for chain in manifest["chains"]], "the statement has other chains")
    return stated["chains"], [loss_in(loss, dict(sizes)) for loss in losses]

# A sentence for the reader about a log that has lost history.
def loss_in(loss, sizes):
    state = "not acknowledged" if loss["acknowledged_at"] is None else "acknowledged at " + loss["acknowledged_at"]
    after = "" if loss["successor"] is None else "; it continues in " + loss["successor"]
    text = "the log %s has lost history (%s, %s); the export contains %d of its entries%s" % (
        loss["chain"], loss["cause"], state, sizes.get(loss["chain"], 0), after)
    return "\nnote: " + "".join(char if char.isprintable() else "\\u{%x}" % ord(char) for char in text)

def check_files(folder, files):
    check(all(name in COVERED + OTHERS or name.startswith(".") for name in os.listdir(folder)), "a file is not part of an export")
    check(sorted(file["name"] for file in files) == sorted(COVERED), "the manifest has other files")
    for file in files:
        with open(os.path.join(folder, only(file, ["name", "sha256", "bytes"])["name"]), "rb") as opened:
            data = opened.read()
        check(len(data) == count(file["bytes"]) and hashlib.sha256(data).hexdigest() == file["sha256"], "%s was changed" % file["name"])

def check_chains(chains, manifest):
    names = [only(chain, ["chain", "size", "head", "root"])["chain"] for chain in chains]
    for chain in chains:
        texts(chain, ["chain", "head", "root"])
    check(names == sorted(set(names), key=lambda name: name.encode("utf-16-be")), "the chains are not sorted")
    check(sum(count(chain["size"]) for chain in chains) == manifest["rowCount"], "the manifest states another number of rows")
    leaves = [leaf_hash("aigw-export-v1", *(c["chain"], "%d" % c["size"], c["head"], c["root"])) for c in chains]
    check(tree_root(leaves).hex() == manifest["merkleRootOfExport"], "its root does not match its chains")

def check_commit(commit, keys):
    only(commit, COMMIT, ["created_at"])
    texts(commit, ["id", "kid", "signer", "signature"])
    leaves = [unhex(leaf) for leaf in commit["leaves"]]
    check(len(leaves) == whole(commit["tree_size"]) and tree_root(leaves) == unhex(commit["root"]), "a commit has another root")
    check(commit["kid"] in keys and keys[commit["kid"]][0] == commit["signer"], "a commit is not signed with a key that is trusted")
    text = "%s/commits/%s\n%d\n%s\n" % (commit["signer"], commit["id"], len(leaves), base64_of(unhex(commit["root"])))
    check_signature(keys[commit["kid"]][1], text.encode(), unbase64(commit["signature"]))
    return commit

def read_checkpoints(folder, tenant, keys, policy):
    checkpoints, cosigned = {}, {}
    for line in lines_of(folder, "checkpoints.ndjson"):
        texts(only(line, ["chain", "tree_size", "note"]), ["chain", "note"])
        check(line["note"].endswith("\n"), "a note is not signed")
        origin, size, root, signers, kids = check_checkpoint(line["note"], keys)
        check(any(origin == "%s/logs/%s" % (name, log_of(tenant, line["chain"])) for name in signers), "a checkpoint belongs to another chain")
        check(size == whole(line["tree_size"]), "a checkpoint has another size")
        checkpoints.setdefault(line["chain"], []).append((size, root, kids))
        # An empty set of witnesses satisfies the policy "quorum none".
        if policy and cosigners_of(line["note"], keys, kids, policy) is not None:
            cosigned[line["chain"]] = max(size, cosigned.get(line["chain"], 0))
    return checkpoints, cosigned

def check_export(folder, keys, policy=None):
    manifest, (stated, losses), signed_at = check_manifest(folder, keys)
    check_files(folder, manifest["files"])
    check_chains(manifest["chains"], manifest)
    tenant, table = manifest["tenant_id"], hashlib.sha256(CSV_HEAD.encode())
    checkpoints, cosigned = read_checkpoints(folder, tenant, keys, policy)
    check(set(checkpoints) <= {chain["chain"] for chain in manifest["chains"]}, "a checkpoint names an unknown chain")
    rows, commits, commit, counts = lines_of(folder, "data.ndjson"), lines_of(folder, "commits.ndjson"), None, {}
    tails, closings = {}, {}
    for chain in manifest["chains"]:
        newest, covered_size = None, cosigned.get(chain["chain"], 0)
        before, nodes, expunged, peaks = "0" * 64, [], [], {size for size, *_ in checkpoints.get(chain["chain"], [])}
        roots = {0: base64_of(tree_root([]))}
        for seq in range(int(chain["size"])):
            row = only(next(rows, None), ROW)
            texts(row, [name for name in ROW if name not in ("seq", "leaf_index", "payload")])
            check((row["tenant_id"], row["chain"], whole(row["seq"])) == (tenant, chain["chain"], seq), "an entry is missing")
            if row["payload"] is None:
                check(chain["chain"] != "changes" and not chain["chain"].startswith("changes-"), "the payload of a change is missing")
                expunged.append("%d\n" % seq)
            else:
                check(sha256(row["payload"].encode()) == unhex(row["payload_hash"]), "a payload was changed")
            unhex(row["payload_hash"])
            covered = [tenant, chain["chain"], str(seq), row["id"], row["created_at"], before, row["payload_hash"]]
            check(leaf_hash("aigw-entry-v1", *covered) == unhex(row["entry_hash"]), "an entry_hash is wrong")
            if commit is None or commit["id"] != row["commit_id"]:
                commit = check_commit(next(commits, None), keys)
            check(commit["id"] == row["commit_id"], "a commit is missing")
            check_window(commit["kid"], keys, row["created_at"])
            check(newest is None or order_of(commit["kid"], keys) >= newest, "a newer key has signed an earlier entry of the chain")
            newest = order_of(commit["kid"], keys)
            if policy and seq >= covered_size:
                tails.setdefault(chain["chain"], []).append(time(row["created_at"]))
            if policy:
                add_closing(closings, row)
            check(whole(row["leaf_index"]) < len(commit["leaves"]) and commit["leaves"][row["leaf_index"]] == row["entry_hash"], "a commit does not contain its entry")
            table.update(csv_line(row).encode())
            before = row["entry_hash"]
            nodes.append(bytes.fromhex(before))
            if seq + 1 in peaks:
                roots[seq + 1] = base64_of(tree_root(nodes))
                for kids in (kids for size, _, kids in checkpoints[chain["chain"]] if size == seq + 1):
                    check_retirement(kids, keys, row["created_at"])
                    check(max(order_of(kid, keys) for kid in kids) >= newest, "a checkpoint covers an entry of a newer key than its own")
        check(before == chain["head"] and tree_root(nodes).hex() == chain["root"], "a chain ends with another entry")
        for size, root, _ in checkpoints.get(chain["chain"], []):
            check(roots.get(size) == root, "a chain does not match its checkpoint of %d entries" % size)
        counts[chain["chain"]] = expunged
    check(next(rows, None) is None and next(commits, None) is None, "a file has more lines than its chains")
    check(table.hexdigest() == next(file["sha256"] for file in manifest["files"] if file["name"] == "data.csv"), "data.csv differs from data.ndjson")
    for chain in stated:
        expunged = counts.get(chain["chain"], [])
        earlier = ["%d %s\n" % pair[:2] for pair in checkpoints.get(chain["chain"], []) if pair[0] < chain["size"]]
        for lines, name in ((expunged, "expunged"), (earlier, "checkpoints")):
            digest = hashlib.sha256("".join(lines).encode()).hexdigest()
            check((len(lines), digest) == (chain[name], chain[name + "_sha256"]), "%d %s of chain %s, but the gateway stated %d" % (len(lines), name, chain["chain"], chain[name]))
    covered = check_cosigned(tenant, time(signed_at), tails, closings, checkpoints, cosigned) if policy else ""
    return "%d entries in %d chains%s" % (manifest["rowCount"], len(manifest["chains"]), covered), "".join(losses)

# An entry of the changes records that an operator has acknowledged the loss of a log, which is closed since then.
def add_closing(closings, row):
    chain, payload = row["chain"], row["payload"]
    if (chain == "changes" or chain.startswith("changes-")) and payload and '"operation":"acknowledge_loss"' in payload:
        content = json.loads(payload)
        log = content.get("resource_id")
        if (content.get("type"), content.get("operation")) == ("evidence_management", "acknowledge_loss") and isinstance(log, str):
            closings.setdefault(log, []).append((chain, row["seq"], time(row["created_at"])))

# Every chain must be cosigned up to its end, except for entries that are young, or of a closed log. A closed log gets no
# more cosignatures, so a cosigned checkpoint must cover the entry that records its end.
def check_cosigned(tenant, signed_at, tails, closings, checkpoints, cosigned):
    read_at, reasons = min(signed_at, datetime.now(timezone.utc)), []
    for chain, times in tails.items():
        is_young = (chain in cosigned or chain not in checkpoints) and read_at - UNCOSIGNED <= min(times) and max(times) <= read_at + SLACK
        ends = closings.get(log_of(tenant, chain), [])
        is_closed = any(other != chain and seq < cosigned.get(other, 0) and max(times) <= at + SLACK for other, seq, at in ends)
        check(is_young or is_closed, "chain %s lacks the cosignatures that the policy demands, from entry %d on" % (chain, cosigned.get(chain, 0)))
        reasons.append("; %d of chain %s accepted without cosignature: %s" % (len(times), chain, "younger than 70 min" if is_young else "the log is closed, as a cosigned entry records"))
    return "; cosigned checkpoints cover %d of them" % sum(cosigned.values()) + "".join(reasons)

def log_of(tenant, chain):
    return sha256(b"".join(b"%d:%s," % (len(text.encode()), text.encode()) for text in (tenant, chain))).hex()[:32]

class Once(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        if not values or getattr(namespace, self.dest) is not None:
            parser.error("%s must be given once, with the name of a file" % option_string)
        setattr(namespace, self.dest, values)

# Returns the exit code and the sentence.
def main(arguments):
    layout = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = argparse.ArgumentParser(description=__doc__, **layout)
    parser.add_argument("DIR")
    parser.add_argument("--keys", action=Once)
    parser.add_argument("--policy", action=Once)
    given = parser.parse_args(arguments)
    own = os.path.join(given.DIR, "keys.json")
    if not given.DIR or not os.path.isdir(given.DIR):
        parser.error("%r is not a directory" % given.DIR)
    try:
        keys = read_keys(given.keys) if given.keys else None
    except REFUSALS as error:
        parser.error("%s holds no keys that can be used: %s" % (given.keys, error))
    is_own = keys is None or os.path.realpath(given.keys) == os.path.realpath(own)
    try:
        policy = read_policy(read(given.policy)) if given.policy else None
    except REFUSALS as error:
        parser.error("%s is no policy: %s" % (given.policy, error))
    found, losses = check_export(given.DIR, keys if keys else read_keys(own), policy)
    if is_own:
        return 11, "The export is consistent, but only by the keys that came with it. Name keys from another source: --keys FILE" + losses
    return 0, "The export is valid: " + found + losses

if __name__ == "__main__":
    try:
        code, sentence = main(sys.argv[1:])
        print(sentence)
        sys.exit(code)
    except REFUSALS as error:
        print("FAIL: %s" % error)
        print("The export is NOT valid.")
        sys.exit(1)

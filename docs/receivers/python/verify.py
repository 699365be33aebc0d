"""Verifies X-Service-Signature. Requires only Python 3.8 or later."""

import hashlib
import hmac
import re
import time


def verify(raw_body, header, secrets, tolerance=300, now=None):
    """raw_body: unparsed bytes; header: str or None; secrets: complete whsec_… texts; pass both during a rotation."""
    now = int(time.time()) if now is None else now
    times, given = [], []
    for part in (header or "").split(","):
        name, equals, value = part.partition("=")
        if name == "t" and equals:
            times.append(value)
        elif name == "v1" and re.fullmatch(r"[0-9a-f]{64}", value):
            given.append(bytes.fromhex(value))
    if len(times) != 1 or not re.fullmatch(r"0|[1-9][0-9]{0,14}", times[0]):
        return False
    # `not … <= …` also rejects if the tolerance or the time is NaN.
    if not abs(now - int(times[0])) <= tolerance:
        return False
    valid = False
    # Anyone could forge a signature with an empty key. In a string, each character would count as a key.
    for secret in filter(None, [secrets] if isinstance(secrets, str) else secrets):
        signed = times[0].encode() + b"." + raw_body
        expected = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
        for value in given:
            valid |= hmac.compare_digest(expected, value)
    return valid


# Flask
#
#   @app.post("/hook")
#   def hook():
#       if not verify(request.get_data(), request.headers.get("X-Service-Signature"), [os.environ["WEBHOOK_SECRET"]]):
#           return "", 401
#       queue.put(request.get_json())   # deliveries may repeat: deduplicate by X-Service-Delivery
#       return "", 204                  # acknowledge within 5 s
#
# Django: request.body and request.headers.get("X-Service-Signature"). FastAPI: await request.body().

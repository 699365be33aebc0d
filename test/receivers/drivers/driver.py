import base64
import sys

from verify import verify

for line in sys.stdin:
    body, header, secrets, tolerance, now = line.rstrip("\n").split("\t")
    text = None if header == "-" else base64.b64decode(header).decode()
    if secrets.startswith("="):
        given = base64.b64decode(secrets[1:]).decode()
    else:
        given = [None if secret == "-" else base64.b64decode(secret).decode() for secret in secrets.split(",")]
    tolerance, now = (float(number) if number == "NaN" else int(number) for number in (tolerance, now))
    print(int(verify(base64.b64decode(body), text, given, tolerance, now)))

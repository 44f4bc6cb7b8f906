import sys

import httpx

with httpx.Client() as client:
    for _ in range(2):
        print(client.get(sys.argv[1]).raise_for_status().text)

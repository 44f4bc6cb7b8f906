import sys

import requests

with requests.Session() as session:
    for _ in range(2):
        answer = session.get(sys.argv[1])
        answer.raise_for_status()
        print(answer.text)

"""A model hub on 127.0.0.1 for tests of downloading: the endpoints and headers that a hub client sees, and its misfortunes.

  python3 hub_server.py ROOT [--port 0] [--token T] [--gated ORG/NAME] [--cut BYTES] [--busy N] [--no-range] [--log FILE]

ROOT holds ORG/NAME/<files>. The first line on standard output is {"port": P, "cdn_port": Q}. Standard library only.

GET  /api/models/ORG/NAME[/revision/REV][?blobs=true]   id, sha, siblings
GET  /api/models/ORG/NAME/tree/REV                      path, size, oid, lfs (always recursive)
HEAD, GET /ORG/NAME/resolve/REV/PATH                    ETag, X-Repo-Commit, Range; files of LFS_SIZE bytes and more answer
                                                        302 to the second port (the CDN) with X-Linked-Etag, X-Linked-Size
REV is main, the commit or any prefix of it that is 7 or more digits long.

--token   every repository is private: without "Authorization: Bearer T" the answer is 401, as for an unknown repository
--gated   that repository answers 403 GatedRepo even with a token
--cut     the first GET of each file breaks off after BYTES bytes (a shorter file is sent whole)
--busy    the first N requests are answered 503 with Retry-After: 0
--no-range ignores Range and sends whole files with 200
--log     appends a JSON line a request: port, method, path, range, authorization, status
The CDN answers 400 to a request that carries Authorization: a client must not send its token to another host.
"""

import argparse
import hashlib
import json
import re
import socket
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LFS_SIZE = 4096


class Hub:
  """What the two servers share."""

  def __init__(self, options):
    self.root = Path(options.root).resolve()
    self.options = options
    self.lock = threading.Lock()
    self.busy_left = options.busy
    self.cut_done = set()
    self.cdn_port = 0

  def files(self, repo):
    folder = self.root / repo
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo) or not folder.is_dir():
      return None
    return {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}

  def commit(self, repo):
    digest = hashlib.sha1(repo.encode())
    for name, path in self.files(repo).items():
      digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()

  def is_revision(self, repo, revision):
    return revision == "main" or (len(revision) >= 7 and self.commit(repo).startswith(revision))

  def take_busy(self):
    with self.lock:
      self.busy_left -= 1
      return self.busy_left >= 0

  def take_cut(self, key):
    with self.lock:
      first = key not in self.cut_done
      self.cut_done.add(key)
      return first and self.options.cut is not None

  def log(self, **entry):
    if self.options.log:
      with self.lock, open(self.options.log, "a") as out:
        out.write(json.dumps(entry) + "\n")


def blob_id(data):
  return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"
  hub: Hub

  def log_message(self, *_):
    pass

  def answer(self, status, headers=None, body=b""):
    """A whole answer; a HEAD request gets the headers of the body that it does not get."""
    self.hub.log(port=self.server.server_port, method=self.command, path=self.path, range=self.headers.get("Range"),
                 authorization=self.headers.get("Authorization"), status=status)
    self.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
      self.send_header(name, value)
    self.end_headers()
    if self.command != "HEAD":
      self.wfile.write(body)

  def refuse(self, status, code, message):
    body = json.dumps({"error": message}).encode()
    self.answer(status, {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json"}, body)

  def answer_json(self, value):
    self.answer(200, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(value).encode())

  def send_file(self, path, headers):
    """Range (one range, from a byte on or between two), and the cut."""
    data = path.read_bytes()
    headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"} | headers
    status, start, end = 200, 0, len(data)
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
    if_range = self.headers.get("If-Range")
    if asked and not self.hub.options.no_range and if_range in (None, headers["ETag"]):
      start = int(asked[1])
      end = min(int(asked[2]) + 1 if asked[2] else len(data), len(data))
      if start >= end:
        return self.answer(416, {"Content-Range": f"bytes */{len(data)}"})
      status = 206
      headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
    cut = self.command == "GET" and self.hub.take_cut(str(path)) and end - start > self.hub.options.cut
    if not cut:
      return self.answer(status, headers, data[start:end])
    self.hub.log(port=self.server.server_port, method="GET", path=self.path, range=self.headers.get("Range"), status=status, cut=True)
    self.send_response(status)
    for name, value in ({"Content-Length": str(end - start)} | headers).items():
      self.send_header(name, value)
    self.end_headers()
    self.wfile.write(data[start:start + self.hub.options.cut])
    self.wfile.flush()
    self.close_connection = True
    self.connection.shutdown(socket.SHUT_RDWR)

  def do_HEAD(self):
    self.do_GET()


class HubHandler(Handler):

  def do_GET(self):
    if self.hub.take_busy():
      return self.answer(503, {"Retry-After": "0"}, b"busy")
    url = urllib.parse.urlsplit(self.path)
    path = urllib.parse.unquote(url.path)
    if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path):
      repo, kind, revision = match[1], match[2], (match[3] or "main").rstrip("/")
    elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
      repo, kind, revision = match[1], "resolve", match[2]
    else:
      return self.refuse(404, "NotFound", "no such page")
    token = self.hub.options.token
    denied = token and self.headers.get("Authorization") != f"Bearer {token}"
    files = self.hub.files(repo)
    if denied or files is None:
      return self.refuse(401 if denied else 404, "RepoNotFound", "Repository not found")
    if repo in self.hub.options.gated:
      return self.refuse(403, "GatedRepo", f"Access to model {repo} is restricted")
    if not self.hub.is_revision(repo, revision):
      return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    if kind == "tree":
      return self.answer_json([self.entry(n, p) for n, p in files.items()])
    if kind != "resolve":
      return self.answer_json(self.model(repo, files, "blobs=true" in url.query.lower()))
    if match[3] not in files:
      return self.refuse(404, "EntryNotFound", "Entry not found")
    self.resolve(repo, match[3], files[match[3]])

  def entry(self, name, path):
    data = path.read_bytes()
    entry = {"type": "file", "path": name, "size": len(data), "oid": blob_id(data)}
    if len(data) >= LFS_SIZE:
      entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    return entry

  def model(self, repo, files, blobs):
    siblings = []
    for name, path in files.items():
      sibling = {"rfilename": name}
      if blobs:
        entry = self.entry(name, path)
        sibling |= {"size": entry["size"], "blobId": entry["oid"]}
        if "lfs" in entry:
          sibling["lfs"] = {"sha256": entry["lfs"]["oid"], "size": entry["size"], "pointerSize": 134}
      siblings.append(sibling)
    return {"_id": "0", "id": repo, "modelId": repo, "sha": self.hub.commit(repo), "private": False, "gated": False,
            "disabled": False, "tags": [], "siblings": siblings}

  def resolve(self, repo, name, path):
    data = path.read_bytes()
    commit = {"X-Repo-Commit": self.hub.commit(repo)}
    if len(data) < LFS_SIZE:
      return self.send_file(path, commit | {"ETag": f'"{blob_id(data)}"'})
    sha = hashlib.sha256(data).hexdigest()
    location = f"http://127.0.0.1:{self.hub.cdn_port}/{urllib.parse.quote(repo)}/{urllib.parse.quote(name)}?signature={sha[:8]}"
    self.answer(302, commit | {"Location": location, "X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{sha}"', "ETag": f'"{sha}"'})


class CdnHandler(Handler):

  def do_GET(self):
    if self.headers.get("Authorization"):
      return self.answer(400, {}, b"Only one auth mechanism allowed")
    url = urllib.parse.urlsplit(self.path)
    org, name, file = (urllib.parse.unquote(url.path).lstrip("/").split("/", 2) + ["", ""])[:3]
    path = (self.hub.files(f"{org}/{name}") or {}).get(file)
    if path is None:
      return self.answer(404)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    if url.query != f"signature={sha[:8]}":
      return self.answer(403, {}, b"the link is not valid")
    self.send_file(path, {"ETag": f'"{sha}"'})


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("root")
  parser.add_argument("--port", type=int, default=0)
  parser.add_argument("--token")
  parser.add_argument("--gated", action="append", default=[])
  parser.add_argument("--cut", type=int)
  parser.add_argument("--busy", type=int, default=0)
  parser.add_argument("--no-range", action="store_true")
  parser.add_argument("--log")
  hub = Hub(parser.parse_args())
  servers = []
  for handler, port in ((HubHandler, hub.options.port), (CdnHandler, 0)):
    servers.append(ThreadingHTTPServer(("127.0.0.1", port), type(handler.__name__, (handler,), {"hub": hub})))
    servers[-1].daemon_threads = True
  hub.cdn_port = servers[1].server_port
  threading.Thread(target=servers[1].serve_forever, daemon=True).start()
  print(json.dumps({"port": servers[0].server_port, "cdn_port": hub.cdn_port}), flush=True)
  try:
    servers[0].serve_forever()
  except KeyboardInterrupt:
    pass


if __name__ == "__main__":
  main()

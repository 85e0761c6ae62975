"""etcd and Vetch side by side under the same small load, with a Prometheus that scrapes both."""

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.parse
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from ports import free_port  # noqa: E402


def get(url, timeout=10):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


def wait_for(what, ready, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if ready():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, f'{what} is not ready after {seconds} s'
        time.sleep(0.1)


class Process:
    """A child that ends with the trial."""

    def __init__(self, name, command, scratch, env=None):
        self.log = scratch / f'{name}.log'
        with open(self.log, 'w') as log:
            self.child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                          env={**os.environ, **(env or {})})

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Server(Process):
    def __init__(self, name, binary, scratch, flags=()):
        self.port, peer = free_port(), free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        peer = f'http://127.0.0.1:{peer}'
        command = [str(binary), '--name', 'default', '--data-dir', str(scratch / name), '--metrics', 'extensive',
                   '--listen-client-urls', self.url, '--advertise-client-urls', self.url,
                   '--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer,
                   '--initial-cluster', f'default={peer}', *flags]
        super().__init__(name, command, scratch)
        wait_for(name, lambda: 'true' in get(self.url + '/health'))

    def page(self):
        return get(self.url + '/metrics')


class Prometheus(Process):
    def __init__(self, binary, scratch, jobs, rules):
        self.url = f'http://127.0.0.1:{free_port()}'
        config = scratch / 'prometheus.json'
        config.write_text(json.dumps({
            'global': {'scrape_interval': '1s', 'evaluation_interval': '1s'},
            'rule_files': [str(path) for path in rules],
            'scrape_configs': [{'job_name': job, 'static_configs': [{'targets': [url.removeprefix('http://')]}]}
                               for job, url in jobs.items()],
        }))
        super().__init__('prometheus', [
            str(binary), f'--config.file={config}', f'--storage.tsdb.path={scratch / "prometheus"}',
            f'--web.listen-address={self.url.removeprefix("http://")}'], scratch)
        wait_for('prometheus', lambda: 'Ready' in get(self.url + '/-/ready'))

    def api(self, path, **arguments):
        answer = json.loads(get(f'{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}'))
        assert answer['status'] == 'success', answer
        return answer['data']

    def query(self, expression):
        """The series of an answer: labels, without the metric's name, and the value as text."""
        data = self.api('query', query=expression)
        return [({k: v for k, v in series['metric'].items() if k != '__name__'}, series['value'][1])
                for series in data['result']]


def load(peers, server, seconds, scratch):
    """The same for both: a little of everything that a control plane and its operators do."""
    ctl = [str(peers / 'etcdctl'), '--endpoints', server.url]

    def run(*words, fails=False):
        done = subprocess.run(ctl + list(words), capture_output=True, text=True)
        assert (done.returncode != 0) == fails, f'{words}: {done.stdout}{done.stderr}'
        return done.stdout

    background = [Process(f'watch-{server.port}', ctl + ['watch', '--prefix', '/registry/'], scratch)]
    lease = run('lease', 'grant', '60').split()[1]
    background.append(Process(f'keep-alive-{server.port}', ctl + ['lease', 'keep-alive', lease], scratch))
    bench = [str(peers / 'benchmark'), '--endpoints', server.url, '--clients', '4', '--conns', '2']
    deadline = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < deadline or rounds < 3:
        rounds += 1
        for resource in ['pods/default/web', 'leases/kube-node-lease/node', 'services/specs/default/dns',
                         'cilium.io/ciliumnodes/node']:
            run('put', f'/registry/{resource}-{rounds}', 'x' * 300)
        subprocess.run(bench + ['put', '--total', '200', '--val-size', '256', '--key-space-size', '50'],
                       check=True, capture_output=True)
        run('get', '--prefix', '/registry/')
        run('del', f'/registry/pods/default/web-{rounds}')
        run('put', '/registry/minions/node-1', 'x', '--lease', lease)
        run('get', '/registry/pods/default/none', '--rev', '99999999', fails=True)
        run('put', 'x', 'y', '--lease', '123', fails=True)
        time.sleep(1)
    subprocess.run(ctl + ['txn'], input='ver("a") = "0"\n\nput a 1\n\n\n', check=True, capture_output=True, text=True)
    revision = json.loads(run('get', 'x', '-w', 'json'))['header']['revision']
    run('compact', str(revision - 5), '--physical')
    run('defrag')
    run('endpoint', 'hashkv')
    run('endpoint', 'status')
    run('alarm', 'list')
    run('member', 'list')
    run('snapshot', 'save', str(pathlib.Path(scratch) / f'{server.port}.db'))
    run('lease', 'revoke', run('lease', 'grant', '60').split()[1])
    for page in ['/livez', '/readyz', '/health', '/metrics']:
        get(server.url + page)
    return background

"""What alerts and dashboards ask: etcd's mixin, and our own files in deploy/."""

import json
import pathlib
import re
import subprocess

# A selector: a metric's name with its matchers.
SELECTOR = re.compile(r'\b([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}')
THRESHOLD = re.compile(r'\s*(==|!=|>=|<=|>|<)\s*(bool\s+)?[0-9.]+\s*$')


def jsonnet(tools, stand_in, expression):
    mixin = next(tools.glob('mixin-*'))
    command = [str(tools / 'bin/jsonnet'), '-J', str(stand_in), '-e', expression]
    return json.loads(subprocess.run(command, cwd=mixin, check=True, capture_output=True, text=True).stdout)


def mixin(tools, stand_in):
    """The rules as Prometheus takes them, and both forms of the dashboard."""
    rules = jsonnet(tools, stand_in, '(import "mixin.libsonnet").prometheusAlerts')
    new = jsonnet(tools, stand_in, '(import "mixin.libsonnet").grafanaDashboards')
    old = '((import "mixin.libsonnet") + { _config+:: { grafana7x: true } }).grafanaDashboards'
    return rules, {'etcd.json': new['etcd.json'], 'etcd.json for Grafana 7': jsonnet(tools, stand_in, old)['etcd.json']}


def alerts(rules):
    return [(rule['alert'], rule['expr']) for group in rules['groups'] for rule in group['rules'] if 'alert' in rule]


def panels(dashboard):
    """Title and query of everything that a dashboard draws, and the query behind each of its variables."""
    found = []

    def walk(panel):
        for target in panel.get('targets', []):
            found.append((panel.get('title', ''), target['expr']))
        for child in panel.get('panels', []):
            walk(child)

    for row in dashboard.get('rows', []) + [dashboard]:
        walk(row)
    for variable in dashboard.get('templating', {}).get('list', []):
        query = variable.get('query')
        match = re.fullmatch(r'label_values\((.*), *(\w+)\)', query) if isinstance(query, str) else None
        if match:
            found.append((f'variable {variable["name"]}', match.group(1)))
    return found


def filled_in(expression, job, window):
    """A query as Grafana sends it. Everything is asked about one job alone, so that the servers do not answer for each other."""
    expression = expression.replace('$cluster', job).replace('$job', job).replace('$instance', '.*')
    expression = expression.replace('$__rate_interval', window).replace('$__range', window)
    return re.sub(r'job=~?"[^"]*"', f'job="{job}"', expression)


def without_threshold(expression):
    """What an alert looks at, without the limit beyond which it goes off."""
    return THRESHOLD.sub('', expression)


def selectors(expression):
    return sorted({match.group(0) for match in SELECTOR.finditer(expression)})


def load(path):
    return json.loads(pathlib.Path(path).read_text())

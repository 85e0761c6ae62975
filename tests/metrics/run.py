#!/usr/bin/env python3
"""The metrics trial: etcd's alerts and dashboards, and our own, on a real scrape of both servers.

    tests/metrics/run.py [--seconds N] [--keep]

Starts etcd and Vetch, puts the same small load on both, has Prometheus scrape them with etcd's mixin and deploy/'s rules loaded,
and asks:

* Wherever a query of etcd's alerts or dashboards has an answer about etcd, does it have one about Vetch, with the same labels?
* Which names are on etcd's page and not on ours, and does docs/metrics.md say why?
* Does every query of our own dashboard and rules have an answer?

The answers go to target/metrics/proof.json. VETCH_BIN and CARGO_TARGET_DIR are heeded.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True

import page  # noqa: E402
import queries  # noqa: E402
import servers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get('CARGO_TARGET_DIR', ROOT / 'target'))
VETCH = pathlib.Path(os.environ.get('VETCH_BIN', TARGET / 'fast/vetch'))
JOBS = {'etcd': 'job-of-etcd', 'vetch': 'vetch-in-place-of-etcd'}
# Long enough for several scrapes, short enough to lie within the load.
WINDOW = '20s'


def script(name):
    return pathlib.Path(subprocess.run([ROOT / 'scripts' / name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def label_names(series):
    """The kinds of series in an answer: which labels they have, whatever their values."""
    return {tuple(sorted(labels)) for labels, _ in series}


def asked(prometheus, expression):
    """The same question about either server, and what is wrong with the difference."""
    answers = {who: prometheus.query(queries.filled_in(expression, job, WINDOW)) for who, job in JOBS.items()}
    problem = None
    if answers['etcd'] and not answers['vetch']:
        problem = 'no answer about vetch'
    elif missing := label_names(answers['etcd']) - label_names(answers['vetch']):
        problem = f'labels missing: {sorted(missing)}'
    return answers, problem


def shown(series):
    return {'series': len(series), 'first': [{'labels': labels, 'value': value} for labels, value in series[:3]]}


def judge_alert(prometheus, name, expression):
    """An alert is asked as it is, without its limit, and for every metric that it looks at."""
    parts = [('alert', expression), ('value', queries.without_threshold(expression))]
    parts += [('metric', selector) for selector in queries.selectors(expression)]
    row = {'alert': name, 'expr': expression, 'asked': [], 'problems': []}
    for kind, part in parts:
        answers, problem = asked(prometheus, part)
        if kind == 'alert':
            # Whether there is a value to judge is asked below. An alert about durations judges the disk of this machine.
            is_alone = answers['vetch'] and not answers['etcd'] and 'duration' not in expression
            problem = 'goes off for vetch alone' if is_alone else None
        row['asked'].append({'what': kind, 'query': part, **{who: shown(series) for who, series in answers.items()}})
        if problem:
            row['problems'].append(f'{part}: {problem}')
    return row


def judge_panel(prometheus, dashboard, title, expression):
    answers, problem = asked(prometheus, expression)
    row = {'dashboard': dashboard, 'panel': title, 'query': expression,
           **{who: shown(series) for who, series in answers.items()}}
    return {**row, 'problems': [problem] if problem else []}


def judge_own(prometheus, what, title, expression):
    series = prometheus.query(queries.filled_in(expression, JOBS['vetch'], WINDOW))
    row = {'from': what, 'title': title, 'query': expression, 'vetch': shown(series)}
    return {**row, 'problems': [] if series else ['no answer']}


def own_queries(rules):
    """Every metric that our rules look at, and every query of our dashboard. TLS is not served here."""
    for group in rules['groups']:
        for rule in group['rules']:
            for selector in queries.selectors(rule['query']):
                if 'vetch_tls_' not in selector:
                    yield 'deploy/prometheus/vetch.rules.yaml', rule['name'], selector
    for title, expression in queries.panels(queries.load(ROOT / 'deploy/grafana/vetch.json')):
        yield 'deploy/grafana/vetch.json', title, expression


def loaded(prometheus, rules):
    """Prometheus must have taken every rule and evaluated it without an error."""
    groups = prometheus.api('rules')['groups']
    evaluated = [rule for group in groups for rule in group['rules']]
    assert len(evaluated) >= rules, f'{len(evaluated)} of {rules} rules are loaded'
    return [f'{rule["name"]}: {rule["health"]} {rule.get("lastError", "")}' for rule in evaluated
            if rule['health'] != 'ok'], groups


def promtool(tools, rules):
    tool = str(tools / 'bin/promtool')
    subprocess.run([tool, 'check', 'rules', *map(str, rules)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tool, 'test', 'rules', 'vetch.rules.test.yaml'], cwd=ROOT / 'deploy/prometheus', check=True,
                   stdout=subprocess.DEVNULL)


def run(seconds, scratch, running):
    peers, tools = script('peers.sh'), script('metrics-tools.sh')
    mixin_rules, dashboards = queries.mixin(tools, ROOT / 'tests/metrics/stand-in')
    alerts = queries.alerts(mixin_rules)
    mixin_file = scratch / 'mixin.rules.json'
    mixin_file.write_text(json.dumps(mixin_rules))
    rule_files = [mixin_file, ROOT / 'deploy/prometheus/vetch.rules.yaml']
    promtool(tools, rule_files)

    # Backups are made, so that what is said about them can be asked for.
    backed_up = servers.Server('vetch', VETCH, scratch, ['--backup-location', str(scratch / 'backup')])
    pair = {'etcd': servers.Server('etcd', peers / 'etcd', scratch), 'vetch': backed_up}
    running += pair.values()
    prometheus = servers.Prometheus(tools / 'bin/prometheus', scratch, {JOBS[w]: s.url for w, s in pair.items()}, rule_files)
    running.append(prometheus)
    failed = []

    def load(server):
        try:
            running.extend(servers.load(peers, server, seconds, scratch))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=load, args=[server]) for server in pair.values()]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed, failed
    time.sleep(3)  # Two more scrapes see the end of it.

    unhealthy, groups = loaded(prometheus, len(alerts))
    own_rules = {'groups': [group for group in groups if group['name'].startswith('vetch')]}
    pages = {who: page.Page(server.page()) for who, server in pair.items()}
    proof = {
        'versions': {'etcd': '3.7.1', 'prometheus': prometheus.api('status/buildinfo')['version']},
        'alerts': [judge_alert(prometheus, *alert) for alert in alerts],
        'panels': [judge_panel(prometheus, name, *panel) for name, board in dashboards.items()
                   for panel in queries.panels(board)],
        'own': [judge_own(prometheus, *query) for query in own_queries(own_rules)],
        'page': page.compare(pages['etcd'], pages['vetch'], page.left_out((ROOT / 'docs/metrics.md').read_text())),
        'rules_in_trouble': unhealthy,
    }
    return proof


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seconds', type=int, default=12, help='how long the load lasts')
    parser.add_argument('--keep', action='store_true', help='keep data and logs')
    arguments = parser.parse_args()
    scratch, running = pathlib.Path(tempfile.mkdtemp(prefix='vetch-metrics-')), []
    try:
        proof = run(arguments.seconds, scratch, running)
    finally:
        [process.stop() for process in reversed(running)]
        if arguments.keep:
            print(f'kept: {scratch}')
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    out = TARGET / 'metrics/proof.json'
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(proof, indent=1) + '\n')

    rows = proof['alerts'] + proof['panels'] + proof['own']
    problems = [f'{row.get("alert") or row.get("panel") or row.get("title")}: {p}' for row in rows for p in row['problems']]
    problems += proof['page']['problems'] + proof['rules_in_trouble']
    answered = sum(bool(row['etcd']['series']) for row in proof['panels'])
    print(f'metrics: {len(proof["alerts"])} alerts and {len(proof["panels"])} panel queries of etcd, of which {answered} have '
          f'an answer about etcd; {len(proof["own"])} queries of our own; {proof["page"]["names_of_etcd"]} names of etcd, '
          f'{len({e["missing"].split("{")[0] for e in proof["page"]["explained"]})} explained, '
          f'{len(proof["page"]["only_vetch"])} only here')
    for problem in problems:
        print(f'PROBLEM {problem}')
    print(f'metrics: {len(problems)} problems; the proof is {out}')
    sys.exit(bool(problems))


if __name__ == '__main__':
    main()

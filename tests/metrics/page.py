"""A page in Prometheus' text format, and what one has that the other lacks."""

import re

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

# Labels whose values name this very process, or depend on what happened to it; that they are there is compared all the same.
OWN_VALUES = {'Local', 'Remote', 'server_id', 'client_api_version', 'code'}


class Page:
    """Families by name: type and samples. The parts of a histogram belong to its family."""

    def __init__(self, text):
        self.types = {}
        self.samples = {}
        for line in text.splitlines():
            if line.startswith('# TYPE '):
                _, _, name, kind = line.split(' ')
                assert name not in self.types, f'{name} has two headings'
                self.types[name] = kind
                self.samples[name] = []
            elif line and not line.startswith('#'):
                self.add(line)

    def add(self, line):
        match = SAMPLE.match(line)
        assert match, f'not a sample: {line!r}'
        name, labels, value = match.groups()
        family = name if name in self.types else re.sub(r'_(bucket|sum|count)$', '', name)
        assert family in self.types, f'{name} has no heading'
        self.samples[family].append((name, dict(LABEL.findall(labels or '')), float(value)))

    def shapes(self, family):
        """What samples there are: names with labels, values of labels only where they mean the same on every server."""
        return {
            (name, tuple(sorted((k, '' if k in OWN_VALUES else v) for k, v in labels.items())))
            for name, labels, _ in self.samples[family]
        }


def shown(shape):
    name, labels = shape
    return name + '{' + ','.join(f'{k}="{v}"' for k, v in labels) + '}'


def left_out(document):
    """The names that a table of docs/metrics.md leaves out, each with its reason: `*` stands for anything."""
    table = document.split('<!-- left out begin -->')[1].split('<!-- left out end -->')[0]
    rows = {}
    for line in table.splitlines():
        if line.startswith('| `'):
            names, reason = [cell.strip() for cell in line.strip('|').split('|')]
            for name in re.findall(r'`([^`]+)`', names):
                rows[name] = reason
    assert rows, 'docs/metrics.md has no table of what is left out'
    return rows


def matches(pattern, text):
    return re.fullmatch(re.escape(pattern).replace(r'\*', '.*'), text) is not None


def compare(etcd, vetch, explained):
    """What etcd's page has and ours lacks without a word about it; and explanations that explain nothing."""
    problems, used, told = [], set(), []

    def lacks(what, detail):
        reason = next((p for p in explained if matches(p, what)), None)
        if reason is None:
            problems.append(f'{detail} is missing, and docs/metrics.md does not say why')
        else:
            used.add(reason)
            told.append({'missing': what, 'why': explained[reason]})

    for family in etcd.types:
        if family not in vetch.types:
            lacks(family, family)
            continue
        if etcd.types[family] != vetch.types[family]:
            problems.append(f'{family} is a {vetch.types[family]}, and a {etcd.types[family]} in etcd')
        for shape in sorted(etcd.shapes(family) - vetch.shapes(family)):
            lacks(shown(shape), shown(shape))
    # Some of what is explained shows on etcd's page only after things that do not happen in this trial.
    idle = sorted(set(explained) - used)
    present = [p for p in idle if any(matches(p, family) for family in vetch.types)]
    problems += [f'docs/metrics.md says that {p} is left out, and it is there' for p in present]
    return {'problems': problems, 'explained': told, 'not_seen_on_etcd_either': idle,
            'names_of_etcd': len(etcd.types), 'names_of_vetch': len(vetch.types),
            'only_vetch': sorted(set(vetch.types) - set(etcd.types))}

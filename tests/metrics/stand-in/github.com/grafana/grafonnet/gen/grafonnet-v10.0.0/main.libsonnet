// Stands in for grafonnet, which no package registry has: as much of it as etcd's dashboard calls. Titles and queries come
// through; how a panel looks does not, because nobody looks at it here.
local nothing = {};
local ignored(value) = nothing;

local panel = {
  new(title): { title: title, targets: [] },
  queryOptions: {
    withTargets(targets): { targets: if std.isArray(targets) then targets else [targets] },
    withInterval: ignored,
  },
  standardOptions: { withUnit: ignored },
  options: {
    withColorMode: ignored,
    withGraphMode: ignored,
    reduceOptions: { withCalcs: ignored },
  },
  fieldOverride: nothing,
  fieldConfig: {
    defaults: {
      custom: { withLineWidth: ignored, withFillOpacity: ignored, withShowPoints: ignored },
    },
  },
};

{
  dashboard: {
    new(title): { title: title },
    withUid: ignored,
    withRefresh: ignored,
    withDescription: ignored,
    withTags: ignored,
    time: { withFrom: ignored, withTo: ignored },
    withVariables(variables): { templating: { list: variables } },
    withPanels(panels): { panels: panels },
    variable: {
      datasource: {
        new(name, type): { name: name, type: 'datasource' },
        generalOptions: { withLabel: ignored },
      },
      query: {
        new(name): { name: name, type: 'query' },
        generalOptions: { withLabel: ignored },
        withDatasourceFromVariable: ignored,
        queryTypes: {
          withLabelValues(label, metric): { query: 'label_values(%s, %s)' % [metric, label] },
        },
      },
    },
  },
  query: {
    prometheus: {
      new(datasource, expr): { expr: expr },
      withLegendFormat(text): { legendFormat: text },
    },
  },
  panel: { stat: panel, timeSeries: panel },
}

'use strict';
// The page's behaviour. Names and texts of the data reach the document as text nodes only, and charts draw
// them as SVG text, so nothing in them is ever markup.
(() => {
  const report = JSON.parse(document.getElementById('data').textContent);
  const $ = (id) => document.getElementById(id);
  const charts = {};
  // Okabe and Ito's colours, which readers with any colour vision tell apart; one for each part of the machine.
  // Systems have the colours that they have in figures.
  const systems = { 'gpu-only': '#0072b2', 'cpu-offload': '#e69f00', 'hbm-pim': '#009e73', 'rank-pim': '#d55e00', l3: '#cc79a7', 'gpu+cpu': '#56b4e9' };
  const palette = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8a7a00', '#7f7f7f'];
  const parts = [ // a pattern of a column or a kind of error, the part's name, its colour
    [/^iteration_dense|^gpu_energy_total|^kernels, (gemm|elementwise|page)|^iterations/, 'GPUs', palette[0]],
    [/^iteration_attention|attention$/, 'attention on the GPUs', palette[4]],
    [/^iteration_waiting|services/, 'waiting', palette[7]],
    [/^site_energy_dram|^DRAM/, 'DRAM', palette[2]],
    [/^site_energy_(pim|bank|rank|hbm)/, 'processing in memory', palette[3]],
    [/^site_energy_(links|dimm)|pcie|all reduce/, 'links and buffers', palette[1]],
    [/^site_energy_(host|board)/, 'host and board', palette[6]],
    [/^site_energy_cooling/, 'cooling', palette[5]],
    [/energy$|^sustained|^energy,/, 'energy', palette[5]],
  ];
  const partOf = (name) => parts.find(([pattern]) => pattern.test(name)) || [null, name, palette[7]];
  let set, at, chosen, base, ranges, order;

  const make = (tag, text, attributes = {}) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (v) => typeof v !== 'number' ? String(v ?? '') : Math.abs(v) >= 1e7 ? v.toExponential(3) : String(Math.abs(v) >= 100 ? Math.round(v) : Number(v.toPrecision(3)));
  const time = (ms) => ms < 1000 ? short(ms) + ' ms' : short(ms / 1000) + ' s';
  const isKey = (name) => (set.columns.find((c) => c.name === name) || {}).key;
  // shown writes a value of a column: bytes with their unit, keys in full, results with three digits or all before the point.
  const shown = (v, name) => {
    if (typeof v !== 'number' || !/_bytes$/.test(name)) return isKey(name) ? String(v ?? '') : short(v);
    const i = Math.max(0, Math.min(4, Math.floor(Math.log2(Math.abs(v) || 1) / 10)));
    return Number((v / 2 ** (10 * i)).toPrecision(4)) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][i];
  };
  const label = (name) => (set.columns.find((c) => c.name === name) || { label: name }).label;
  const cell = (row, name) => {
    if (at[name] !== undefined) return set.rows[row][at[name]];
    const fixed = set.constants.find((c) => c.name === name);
    return fixed === undefined || fixed.value === '' || isNaN(fixed.value) ? fixed && fixed.value : Number(fixed.value);
  };
  // withBand writes a value with what the bands of prices make of it.
  const withBand = (row, name) => {
    const low = cell(row, name + '_low'), high = cell(row, name + '_high');
    return shown(cell(row, name), name) + (typeof low === 'number' && typeof high === 'number' ? ` (${short(low)} to ${short(high)})` : '');
  };
  const pointName = (row) => set.names[row] + set.signs[row];
  const command = (row) => set.sets ? set.command + set.sets[row] : '';
  const better = (name) => {
    const goal = set.goals.find((g) => g.column === name);
    if (goal) return goal.maximize ? 1 : -1;
    const c = set.columns.find((c) => c.name === name);
    return c && c.better ? c.better : -1;
  };

  function draw(id, option) {
    const old = charts[id];
    if (old) old.dispose();
    const chart = charts[id] = echarts.init($(id), null, { renderer: 'svg' });
    chart.setOption({ animation: false, textStyle: { color: css('--ink'), fontFamily: 'system-ui, sans-serif' }, ...option });
    return chart;
  }
  const axis = (name, more = {}) => ({ type: 'value', name, nameLocation: 'middle', nameGap: 32, scale: true,
    nameTextStyle: { color: css('--ink') }, axisLabel: { color: css('--dim'), formatter: short, hideOverlap: true },
    axisLine: { lineStyle: { color: css('--line') } }, splitLine: { lineStyle: { color: css('--line'), opacity: 0.4 } }, ...more });
  const tooltip = (formatter) => ({ renderMode: 'richText', confine: true, formatter,
    backgroundColor: css('--soft'), borderColor: css('--line'), textStyle: { color: css('--ink'), fontSize: 12 } });
  const legend = () => ({ top: 0, type: 'scroll', textStyle: { color: css('--ink') } });
  const categories = (data, more = {}, labels = {}) => axis('', { type: 'category', data, ...more, axisLabel: { color: css('--dim'), width: Math.min(190, document.body.clientWidth * 0.36), overflow: 'truncate', ...labels } });

  // inRanges says whether a point lies within what was chosen in the parallel coordinates.
  const inRanges = (row) => Object.entries(ranges).every(([name, spans]) => {
    const v = parallelValue(row, name);
    return spans.some(([low, high]) => v >= low && v <= high);
  });
  const textsOf = (name) => [...new Set(set.rows.map((_, r) => cell(r, name)))].sort((a, b) => typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b)));
  // isDiscrete says that a column is a key of few numbers: axes show what was tried, and nothing between.
  const isDiscrete = (name) => isKey(name) && textsOf(name).length <= 24 && textsOf(name).every((v) => typeof v === 'number');
  const isNumber = (name) => (set.columns.find((c) => c.name === name) || {}).numeric && !isDiscrete(name);
  // scaleOf returns the kind of axis: logarithmic where four fifths of the points lie in a tenth of it, or a decade is empty.
  const scaleOf = (name) => {
    const all = set.rows.map((_, r) => cell(r, name)).filter((v) => typeof v === 'number').sort((a, b) => a - b), low = all[0], high = all[all.length - 1];
    if (!(low > 0) || high < 10 * low) return 'value';
    const empty = all.some((v, i) => i > 0 && v >= 10 * all[i - 1]), span = (high - low) / 10, most = Math.ceil(0.8 * all.length);
    return empty || all.some((v, i) => i + most <= all.length && all[i + most - 1] - v <= span) ? 'log' : 'value';
  };
  const ticks = (name) => isDiscrete(name) ? { customValues: textsOf(name) } : {};
  const spreadOf = (row, name) => { const g = set.goals.findIndex((goal) => goal.column === name); return g < 0 ? 0 : set.spread[row][g]; };
  const parallelValue = (row, name) => isNumber(name) ? cell(row, name) : textsOf(name).indexOf(cell(row, name));

  // frontOf returns the points that no other equals or beats in x and y, in the order of x.
  function frontOf(x, y) {
    const sx = better(x), sy = better(y);
    const rows = set.rows.map((_, r) => r).filter((r) => inRanges(r) && typeof cell(r, x) === 'number' && typeof cell(r, y) === 'number');
    rows.sort((a, b) => sx * (cell(b, x) - cell(a, x)) || sy * (cell(b, y) - cell(a, y)));
    let best = -Infinity;
    const front = rows.filter((r) => sy * cell(r, y) > best && ((best = sy * cell(r, y)), true));
    return front.sort((a, b) => cell(a, x) - cell(b, x));
  }

  function drawScatter() {
    const x = $('x').value, y = $('y').value, by = $('colour').value;
    const onFront = new Set(set.front);
    const groups = by ? textsOf(by) : ['points'];
    const series = groups.map((group, i) => ({
      name: by ? shown(group, by) : group, type: 'scatter', color: systems[group] || palette[i % palette.length], symbol: ['circle', 'triangle', 'rect', 'diamond', 'pin', 'arrow'][i % 6],
      data: set.rows.map((_, r) => r).filter((r) => (!by || cell(r, by) === group)).map((r) => ({
        value: [cell(r, x), cell(r, y)], row: r, label: { show: set.signs[r] !== '', formatter: () => set.signs[r].trim(), position: 'right', distance: 2, color: css('--ink'), fontSize: 11 }, symbolSize: r === chosen ? 18 : onFront.has(r) ? 11 : 7,
        itemStyle: { opacity: !inRanges(r) ? 0.05 : onFront.has(r) || r === chosen ? 1 : 0.35, borderColor: r === chosen ? css('--ink') : undefined, borderWidth: r === chosen ? 2 : 0 },
      })),
    }));
    const front = frontOf(x, y);
    // The staircase stays on the side that was simulated.
    series.push({ name: 'front', type: 'line', step: better(x) > 0 ? 'start' : 'end', showSymbol: false, silent: true, color: css('--dim'), lineStyle: { width: 1.5 }, data: front.map((r) => [cell(r, x), cell(r, y)]) });
    // One standard deviation over the seeds of a point, where it has several.
    series.push({ type: 'custom', silent: true, z: 1, encode: { x: 0, y: 1 },
      data: set.rows.map((_, r) => r).filter((r) => inRanges(r) && (onFront.has(r) || r === chosen) && (spreadOf(r, x) > 0 || spreadOf(r, y) > 0)).map((r) => [cell(r, x), cell(r, y), spreadOf(r, x), spreadOf(r, y)]),
      renderItem: (_, api) => {
        const [vx, vy, sx, sy] = [0, 1, 2, 3].map((k) => api.value(k)), stop = (v, s, name) => scaleOf(name) === 'log' ? Math.max(v - s, v / 10) : v - s;
        const line = (a, b) => ({ type: 'line', shape: { x1: a[0], y1: a[1], x2: b[0], y2: b[1] }, style: { stroke: css('--dim'), lineWidth: 1 } });
        return { type: 'group', children: [line(api.coord([stop(vx, sx, x), vy]), api.coord([vx + sx, vy])), line(api.coord([vx, stop(vy, sy, y)]), api.coord([vx, vy + sy]))] };
      } });
    const along = (name, gap) => axis(label(name), { type: scaleOf(name), nameGap: gap, axisTick: ticks(name),
      axisLabel: { color: css('--dim'), hideOverlap: true, formatter: (v) => shown(v, name), ...ticks(name) } });
    const chart = draw('scatter', {
      legend: legend(), grid: { left: 70, right: 20, top: 40, bottom: 50 }, xAxis: along(x, 32), yAxis: along(y, 56),
      tooltip: tooltip((p) => p.data.row === undefined ? '' : pointName(p.data.row) + '\n' + set.goals.map((g) => g.label + ': ' + withBand(p.data.row, g.column)).join('\n')),
      series,
    });
    chart.on('click', (p) => { if (p.data && p.data.row !== undefined) choose(p.data.row); });
  }

  function drawParallel() {
    const names = set.columns.filter((c) => c.key).map((c) => c.name).concat(set.goals.map((g) => g.column).filter((n) => at[n] !== undefined && !set.columns[at[n]].key));
    const rows = set.rows.map((_, r) => r).sort((a, b) => set.front.includes(a) - set.front.includes(b));
    $('parallel').style.width = `max(100%, ${110 + 85 * (names.length - 1)}px)`; // on phones its box scrolls
    const room = Math.max(30, ($('parallel').clientWidth - 110) / Math.max(1, names.length - 1) - 8); // for a name
    const chart = draw('parallel', {
      parallel: { left: 50, right: 60, top: 70, bottom: 30, axisExpandable: false },
      parallelAxis: names.map((n, dim) => ({
        dim, name: label(n).replace(/ \(.*\)$/, ''), nameTextStyle: { color: css('--ink'), fontSize: 11, width: room, overflow: 'break' }, inverse: false, scale: true,
        axisLabel: { color: css('--dim'), formatter: isNumber(n) ? (v) => shown(v, n) : undefined }, axisLine: { lineStyle: { color: css('--dim') } },
        ...(isNumber(n) ? { type: 'value' } : { type: 'category', data: textsOf(n).map((v) => shown(v, n)) }),
      })),
      series: [{ type: 'parallel', inactiveOpacity: 0.04, activeOpacity: 1, progressive: 0,
        data: rows.map((r) => ({ value: names.map((n) => isNumber(n) ? cell(r, n) : shown(cell(r, n), n)), lineStyle: { color: set.front.includes(r) ? palette[5] : palette[0], opacity: set.front.includes(r) ? 0.9 : 0.18, width: set.front.includes(r) ? 1.8 : 1 } })) }],
    });
    chart.on('axisareaselected', () => {
      ranges = {};
      names.forEach((_, i) => {
        const spans = chart.getModel().getComponent('parallelAxis', i).activeIntervals || [];
        if (spans.length) ranges[names[i]] = spans.map(([low, high]) => [low, high]);
      });
      drawScatter(); drawTable();
    });
  }

  // some returns the points that the stacked charts show: at most twelve of the front, those that the answers name, and the chosen one.
  function some() {
    const every = Math.max(1, Math.ceil(set.front.length / 12));
    const rows = set.front.filter((_, i) => i % every === 0);
    for (const r of set.best) if (!rows.includes(r)) rows.push(r);
    return chosen !== undefined && !rows.includes(chosen) ? rows.concat([chosen]) : rows;
  }
  function drawStack(id, columns, unit, scale) {
    const rows = some(), turned = Math.max(...rows.map((r) => pointName(r).length)) * 7 > $(id).clientWidth / rows.length - 20, used = columns.filter((c) => rows.some((r) => cell(r, c) > 0)), groups = [...new Set(used.map((c) => partOf(c)[1]))];
    draw(id, {
      legend: legend(), grid: { left: 75, right: 15, top: 40, bottom: turned ? 85 : 30 },
      xAxis: categories(rows.map((r) => (r === chosen ? '▸ ' : '') + pointName(r)), {}, { rotate: turned ? 35 : 0, width: turned ? 110 : $(id).clientWidth / rows.length - 20, interval: 0 }), yAxis: axis(unit, { scale: false, nameGap: 45 }),
      tooltip: tooltip((p) => `${pointName(rows[p.dataIndex])}\n${p.seriesName}: ${short(p.value)} ${unit}`),
      series: groups.map((g) => ({ name: g, type: 'bar', stack: 'all', color: partOf(used.find((c) => partOf(c)[1] === g))[2],
        data: rows.map((r) => used.filter((c) => partOf(c)[1] === g).reduce((sum, c) => sum + cell(r, c) * scale(r), 0)) })),
    });
  }
  function drawParts() {
    drawStack('time', ['iteration_dense_ms', 'iteration_attention_ms', 'iteration_waiting_ms'], 'ms', () => 1);
    drawStack('energy', report.parts, 'J/token', (r) => 1 / cell(r, 'output_tokens'));
    for (const what of ['ttft', 'tbt']) {
      const times = some().flatMap((r) => ['p50', 'max'].map((p) => cell(r, `${what}_${p}_ms`))).filter((v) => v > 0);
      draw(what, {
        grid: { left: 65, right: 35, top: 15, bottom: 45 }, xAxis: axis(what.toUpperCase(), { type: Math.max(...times) > 20 * Math.min(...times) ? 'log' : 'value', axisLabel: { color: css('--dim'), formatter: time, hideOverlap: true } }), yAxis: axis('share (%)', { min: 40, max: 100, nameGap: 45 }),
        tooltip: tooltip((p) => `${p.seriesName}\n${p.value[1]}% within ${time(p.value[0])}`),
        series: some().map((r) => ({ name: pointName(r), type: 'line', symbolSize: 5, color: r === chosen ? palette[5] : palette[0], lineStyle: { width: r === chosen ? 3 : 1, opacity: r === chosen ? 1 : 0.5 },
          data: [['p50', 50], ['p90', 90], ['p95', 95], ['p99', 99], ['max', 100]].map(([p, share]) => [cell(r, `${what}_${p}_ms`), share]).filter((d) => d[0] > 0) })),
      });
    }
    const rate = 'arrivals_rate_per_s';
    $('rates').hidden = at[rate] === undefined;
    if ($('rates').hidden) return;
    const others = set.columns.filter((c) => c.key && !/rate/.test(c.name)).map((c) => c.name), lines = {};
    set.rows.forEach((_, r) => { const name = others.map((n) => short(cell(r, n))).join(', ') || 'all'; (lines[name] ||= []).push([cell(r, rate), 100 * cell(r, 'goodput_attainment')]); });
    draw('attainment', { legend: legend(), grid: { left: 65, right: 20, top: 40, bottom: 45 }, xAxis: axis('requests/s'), yAxis: axis('attainment (%)', { min: 0, max: 100, nameGap: 45 }), tooltip: tooltip((p) => `${p.seriesName}\n${short(p.value[0])}/s: ${short(p.value[1])}%`),
      series: Object.entries(lines).map(([name, data], i) => ({ name, type: 'line', color: palette[i % palette.length], data: data.sort((a, b) => a[0] - b[0]) })) });
  }

  function drawValidation() {
    const all = report.validation.slice().reverse();
    draw('validation', {
      grid: { left: Math.min(210, $('validation').clientWidth * 0.45), right: 30, top: 10, bottom: 45 }, xAxis: axis('absolute error (%)', { min: 0, scale: false }), yAxis: categories(all.map((e) => e.kind)),
      tooltip: tooltip((p) => { const e = all[p.dataIndex]; return `${e.kind}: ${short(100 * e.mean)}% over ${e.rows} rows\nworst: ${e.anchor}, ${short(100 * e.worst)}%`; }),
      series: [{ type: 'bar', data: all.map((e) => ({ value: 100 * e.mean, itemStyle: { color: partOf(e.kind)[2] } })) },
        { type: 'scatter', symbol: 'diamond', symbolSize: 9, color: css('--ink'), data: all.map((e, i) => [100 * e.worst, i]) }],
    });
  }

  function drawTable() {
    const main = new Set(['point', ...set.columns.filter((c) => c.key).map((c) => c.name), ...set.goals.map((g) => g.column), 'output_tokens_per_s', 'tbt_p99_ms', 'ttft_p99_ms', 'usd_per_million_output_tokens', 'output_tokens_per_site_joule']);
    const columns = set.columns.filter((c) => $('all').checked || main.has(c.name)), onFront = new Set(set.front), text = $('filter').value.toLowerCase();
    const head = make('tr');
    for (const c of columns) {
      const th = make('th', undefined, { scope: 'col', 'aria-sort': order.name !== c.name ? 'none' : order.up ? 'ascending' : 'descending' });
      const b = make('button', c.name + (order.name !== c.name ? '' : order.up ? ' ▲' : ' ▼'), { type: 'button' });
      b.addEventListener('click', () => {
        order = { name: c.name, up: order.name === c.name ? !order.up : true };
        drawTable();
        [...document.querySelectorAll('#points thead button')][columns.indexOf(c)].focus();
      });
      th.append(b); head.append(th);
    }
    const rows = set.rows.map((_, r) => r).filter((r) => inRanges(r) && (!text || columns.some((c) => String(cell(r, c.name)).toLowerCase().includes(text))));
    if (order.name) rows.sort((a, b) => {
      const x = cell(a, order.name), y = cell(b, order.name), d = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
      return order.up ? d : -d;
    });
    const body = rows.map((r) => {
      const tr = make('tr', undefined, { tabindex: '0', 'data-row': r });
      if (onFront.has(r)) tr.classList.add('on');
      if (r === chosen) tr.classList.add('chosen');
      for (const c of columns) { const td = make('td', c.name === 'point' ? pointName(r) : shown(cell(r, c.name), c.name)); if (c.numeric) td.className = 'number'; tr.append(td); }
      tr.addEventListener('click', () => choose(r));
      tr.addEventListener('keydown', (e) => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); choose(r); } });
      return tr;
    });
    document.querySelector('#points thead').replaceChildren(head);
    document.querySelector('#points tbody').replaceChildren(...body);
    $('count').textContent = `${rows.length} of ${set.rows.length} points; bold ones are on the front`;
  }

  // choose shows a point: its difference from the base, and the command that runs it.
  function choose(row) {
    chosen = row;
    const box = $('chosen'), table = make('table'), head = make('tr');
    for (const t of ['', pointName(row), 'base: ' + pointName(base), 'difference']) head.append(make('th', t, { scope: 'col' }));
    table.append(head);
    for (const c of set.columns.filter((c) => c.name !== 'point' && (c.key || set.goals.some((g) => g.column === c.name)))) {
      const a = cell(row, c.name), b = cell(base, c.name);
      if (c.key && a === b) continue;
      const tr = make('tr');
      tr.append(make('th', c.label, { scope: 'row' }), make('td', withBand(row, c.name), { class: 'number' }), make('td', withBand(base, c.name), { class: 'number' }),
        make('td', typeof a === 'number' && typeof b === 'number' && b !== 0 ? `${a >= b ? '+' : ''}${short(100 * (a - b) / Math.abs(b))}%` : '', { class: 'number' }));
      table.append(tr);
    }
    const whole = String(cell(row, 'point') ?? '').replaceAll(',', ', ');
    box.replaceChildren(make('h3', pointName(row)), make('p', /^#/.test(pointName(row)) ? whole : ''), table);
    if (command(row)) {
      const copy = make('button', 'copy', { type: 'button' });
      copy.addEventListener('click', () => navigator.clipboard && navigator.clipboard.writeText(command(row)));
      box.append(make('pre', command(row)), copy);
    }
    const rebase = make('button', 'make it the base', { type: 'button' });
    rebase.addEventListener('click', () => { base = row; choose(row); });
    box.append(rebase);
    drawScatter(); drawParts();
    for (const tr of document.querySelectorAll('#points tbody tr')) tr.classList.toggle('chosen', Number(tr.dataset.row) === row);
  }

  function fill(select, names, value) {
    select.replaceChildren(...names.map((n) => make('option', n === '' ? 'none' : label(n), { value: n })));
    select.value = value;
  }
  function show(i) {
    set = report.sets[i];
    at = Object.fromEntries(set.columns.map((c, n) => [c.name, n]));
    chosen = undefined; base = 0; ranges = {}; order = { name: '', up: true };
    const numeric = set.columns.filter((c) => c.numeric).map((c) => c.name), goals = set.goals.map((g) => g.column).filter((n) => at[n] !== undefined);
    const texts = set.columns.filter((c) => c.key && (!c.numeric || textsOf(c.name).length <= 8)).map((c) => c.name);
    fill($('x'), numeric, goals[1] || numeric[0]); fill($('y'), numeric, goals[0] || numeric[0]);
    fill($('colour'), [''].concat(texts), texts.find((n) => n === 'run.system') || texts[0] || '');
    $('chosen').replaceChildren();
    drawAll();
  }
  function drawAll() { drawScatter(); drawParallel(); drawParts(); drawValidation(); drawTable(); }

  function save(name, type, text) {
    const a = make('a', '', { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  }
  const field = (v) => /[",\n\r]/.test(v) ? '"' + v.replaceAll('"', '""') + '"' : v;
  const columnsOut = () => set.columns.map((c) => c.name).concat(set.constants.map((c) => c.name));
  $('csv').addEventListener('click', () => save(set.name + '.csv', 'text/csv', [columnsOut().concat(['command']).join(',')].concat(
    set.rows.map((_, r) => columnsOut().map((n) => field(String(cell(r, n) ?? ''))).concat([field(command(r))]).join(','))).join('\n') + '\n'));
  $('json').addEventListener('click', () => save(set.name + '.json', 'application/json', JSON.stringify(set.rows.map((_, r) =>
    Object.fromEntries(columnsOut().map((n) => [n, cell(r, n) ?? null]).concat([['command', command(r)]]))), null, 1)));
  for (const id of ['x', 'y', 'colour']) $(id).addEventListener('change', drawScatter);
  $('filter').addEventListener('input', drawTable);
  $('all').addEventListener('change', drawTable);
  if ($('set')) $('set').addEventListener('change', () => show(Number($('set').value)));
  $('scatter').addEventListener('keydown', (e) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    const front = frontOf($('x').value, $('y').value), i = front.indexOf(chosen);
    if (front.length) choose(front[i < 0 ? 0 : (i + step + front.length) % front.length]);
  });
  const dark = (on) => {
    document.documentElement.classList.toggle('dark', on);
    $('theme').textContent = on ? 'light' : 'dark';
  };
  dark(matchMedia('(prefers-color-scheme: dark)').matches);
  $('theme').addEventListener('click', () => { dark(!document.documentElement.classList.contains('dark')); drawAll(); });
  matchMedia('print').addEventListener('change', () => drawAll());
  addEventListener('resize', () => { for (const c of Object.values(charts)) c.resize(); });
  show(0);
  document.documentElement.dataset.ready = 'true';
})();

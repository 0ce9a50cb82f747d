/* Numbers as people read them: the rules of unit.rs once more, for numbers that change. A test compares the two. */
const { show, showTick } = (() => {
  const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  const minus = value => (value < 0 ? '-' : '');

  function rounded(value, decimals) {
    if (!Number.isFinite(value)) return minus(value) + '∞';
    const scale = 10 ** decimals;
    const near = Math.floor(Math.abs(value) * scale + 0.5) / scale;
    const digits = near >= 1e21 ? BigInt(near).toString() : near.toFixed(decimals);
    const [whole, rest] = digits.split('.');
    const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, ',') : whole;
    return (near === 0 ? '' : minus(value)) + grouped + (rest ? '.' + rest : '');
  }

  const trimmed = text => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);

  function plain(value) {
    const size = Math.abs(value);
    const decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : size >= 0.001 ? 5 : 8;
    return trimmed(rounded(value, decimals));
  }

  function percent(hundredths) {
    const text = rounded(hundredths, Math.abs(hundredths) >= 10 ? 1 : 2);
    /* 0.29 are 29 hundredths, whatever their product says. */
    return (Math.abs(hundredths - Math.round(hundredths)) < 1e-9 ? trimmed(text) : text) + ' %';
  }

  function bytes(value) {
    let power = 0, number = Math.abs(value);
    while (number >= 1024 && power + 1 < BYTE_UNITS.length) {
      number /= 1024;
      power += 1;
    }
    if (plain(number) === '1024' && power + 1 < BYTE_UNITS.length) {
      number /= 1024;
      power += 1;
    }
    return minus(value) + plain(number) + ' ' + BYTE_UNITS[power];
  }

  function time(us) {
    const size = Math.abs(us);
    if (size > 0 && size < 0.01) return plain(us * 1e3) + ' ns';
    return size < 1e3 ? plain(us) + ' µs' : size < 1e6 ? plain(us / 1e3) + ' ms' : plain(us / 1e6) + ' s';
  }

  function dollars(value) {
    const size = Math.abs(value);
    return minus(value) + '$' + (size === 0 || size >= 0.1 && size < 100 ? rounded(size, 2) : plain(size));
  }

  function years(value) {
    const size = Math.abs(value), days = value * 365;
    const [number, name] = size >= 1 || size === 0 ? [value, ' year']
      : Math.abs(days) >= 1 ? [days, ' day'] : [days * 24, ' hour'];
    const text = plain(number);
    return text + name + (text === '1' ? '' : 's');
  }

  const kinds = {
    'count': plain,
    'ratio': value => percent(value * 100),
    'bytes': bytes,
    'bytes-day': value => bytes(value) + '/day',
    'us': time,
    'years': years,
    'usd': dollars,
  };

  /* A unit that begins with '=' brings its own name. */
  function show(unit, value) {
    if (value === null || Number.isNaN(value)) return '–';
    return unit.startsWith('=') ? plain(value) + ' ' + unit.slice(1) : kinds[unit](value);
  }

  /* How large the unit of a tick's label is, and what is written behind the number. */
  function tickUnit(unit, value) {
    const size = Math.abs(value);
    if (unit === 'ratio') return [0.01, ' %'];
    if (unit.startsWith('bytes')) {
      let power = 0;
      for (let number = size; number >= 1024 && power + 1 < BYTE_UNITS.length; number /= 1024) power += 1;
      return [1024 ** power, ' ' + BYTE_UNITS[power] + (unit === 'bytes-day' ? '/day' : '')];
    }
    if (unit === 'us') return size < 1e3 ? [1, ' µs'] : size < 1e6 ? [1e3, ' ms'] : [1e6, ' s'];
    if (unit === 'years') return [1, ' years'];
    return [1, unit.startsWith('=') ? ' ' + unit.slice(1) : ''];
  }

  /* How many decimals show a step exactly, up to six. */
  function decimalsOf(step) {
    for (let decimals = 0; decimals < 6; decimals += 1) {
      const scaled = step * 10 ** decimals;
      if (Math.abs(scaled - Math.round(scaled)) <= 1e-6 * Math.abs(scaled)) return decimals;
    }
    return 6;
  }

  function showTick(unit, value, step) {
    if (value === 0 && ['bytes', 'bytes-day', 'us', 'years'].includes(unit)) return '0';
    const [factor, suffix] = tickUnit(unit, value);
    const text = trimmed(rounded(Math.abs(value) / factor, decimalsOf(step / factor)));
    return minus(value) + (unit === 'usd' ? '$' : '') + text + suffix;
  }

  return { show, showTick };
})();

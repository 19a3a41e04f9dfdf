// Numbers as reports print them.

const THIN = new Intl.NumberFormat("en-US");

export function whole(value: number): string {
  return THIN.format(Math.round(value));
}

/** Three digits that count: "1.23", "12.3", "123". */
function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

function scaled(value: number, steps: [number, string][]): string {
  const [size, unit] = steps.find((it) => Math.abs(value) >= it[0]) ?? steps[steps.length - 1];
  return (size === 1 && Number.isInteger(value) ? String(value) : digits(value / size)) + " " + unit;
}

export function amount(value: number, unit: string): string {
  if (unit === "ns") return scaled(value, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
  if (unit === "bytes" || unit === "B") return scaled(value, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
  return whole(value) + (unit ? " " + unit : "");
}

export function percent(share: number): string {
  return (share * 100).toFixed(1) + " %";
}

/** Half of an interval, in points. */
export function margin(low: number, high: number): string {
  return "±" + (((high - low) / 2) * 100).toFixed(1);
}

export function points(change: number): string {
  return (change > 0 ? "+" : change < 0 ? "−" : "±") + Math.abs(change * 100).toFixed(1);
}

export function times(value: number): string {
  if (!isFinite(value)) return "∞";
  return (value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : whole(value)) + "×";
}

export function address(value: number): string {
  return value.toString(16);
}

/** The last part of a path. */
export function base(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** A moment of a recording `all` ns long, reported so finely that moments `step` ns apart differ. */
export function moment(ns: number, all: number, step: number): string {
  const [unit, name] = all >= 1e9 ? [1e9, "s"] : [1e6, "ms"];
  return (ns / unit).toFixed(Math.min(Math.max(Math.ceil(-Math.log10(step / unit) - 1e-9), 0), 6)) + " " + name;
}

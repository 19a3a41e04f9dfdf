// Colours of images. No two images share one; Tally's own have none, so that they do not look like a part of the program.
import { AGENT_IMAGE, type Model, STUBS_IMAGE, WHOLE } from "./model";

/** Lightness, chroma and hue, as oklch() takes them. */
export type Colour = readonly [number, number, number];

export const GREY: Colour = [0.82, 0.008, 250];

/** Each is as far as can be from those before it (the least distance in OKLab is 0.09 of the first 16, 0.06 of all), in sRGB as
 *  it is and 0.1 darker, and dark enough or light enough for black text with a contrast of 4.5 in both. */
const COLOURS: Colour[] = [
  [.82, .09, 255], [.82, .1, 145], [.82, .1, 60], [.82, .09, 310], [.84, .09, 200], [.84, .1, 100], [.8, .1, 20], [.7, .05, 195],
  [.7, .12, 95], [.7, .12, 335], [.7, .12, 275], [.9, .05, 10], [.7, .12, 40], [.72, .12, 145], [.74, .12, 230], [.9, .05, 145],
  [.76, .05, 100], [.74, .05, 305], [.76, .11, 185], [.9, .12, 175], [.9, .05, 250], [.9, .12, 125], [.9, .08, 75], [.78, .12, 340],
  [.7, .05, 25], [.76, .12, 115], [.78, .05, 215], [.76, .12, 295], [.76, .12, 75], [.88, .1, 330], [.74, .12, 10], [.76, .12, 260],
  [.7, .07, 120], [.7, .11, 175], [.84, .06, 355], [.7, .12, 305], [.8, .12, 220], [.72, .07, 250], [.76, .12, 45], [.9, .09, 210],
];

/** The colour of the image that has the `rank` most; beyond the list hues go on by the golden angle, which never comes back. */
export function colourOf(rank: number): Colour {
  return COLOURS[rank] ?? [[0.74, 0.8, 0.88][rank % 3], 0.08, (rank * 137.508) % 360];
}

/** `shift`: how much lighter than in the list; a number, or a property of the style. */
export function css([lightness, chroma, hue]: Colour, shift: number | string): string {
  const light = typeof shift === "number" ? (lightness + shift).toFixed(3) : `calc(${lightness} + var(${shift}))`;
  return `oklch(${light} ${chroma} ${hue.toFixed(1)})`;
}

export function isOwnImage(image: string): boolean {
  return image === AGENT_IMAGE || image === STUBS_IMAGE;
}

const known = new WeakMap<Model, Map<string, Colour>>();

/** By name, those with the most first. Of the counter that is shown at first and of the whole recording, so that an image keeps its
 *  colour whatever is chosen. */
export function coloursOf(model: Model): Map<string, Colour> {
  const before = known.get(model);
  if (before) return before;
  const weight = new Map<string, number>(), functions = model.functions(model.preferred(), WHOLE, false);
  model.imageNames.forEach((image, fn) => { if (fn) weight.set(image, (weight.get(image) ?? 0) + functions.self[fn]); });
  const images = [...weight].filter(([image]) => !isOwnImage(image)).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const colours = new Map(images.map(([image], rank) => [image, colourOf(rank)]));
  known.set(model, colours);
  return colours;
}

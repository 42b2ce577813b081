/** Icons, drawn in place: an output's frame has no sheet to refer to. */
import type { JSX } from "preact";

const RING = <circle cx="8" cy="8" r="6.25" />;

const DRAWINGS = {
  wait: [RING, <path d="M6.4 5.7v4.6M9.6 5.7v4.6" />],
  prep: [<circle cx="8" cy="8" r="6.25" stroke-dasharray="2.2 2.7" />],
  clock: [RING, <path d="M8 4.6V8l2.3 1.5" />],
  run: [<circle cx="8" cy="8" r="6.25" opacity=".28" />, <path d="M8 1.75A6.25 6.25 0 0 1 14.25 8" />],
  check: [RING, <path d="M5.3 8.2l1.9 1.9 3.5-4" />],
  cross: [RING, <path d="M5.9 5.9l4.2 4.2M10.1 5.9l-4.2 4.2" />],
  deny: [RING, <path d="M3.7 12.3l8.6-8.6" />],
  cancel: [RING, <path d="M6 6h4v4H6z" />],
  unknown: [RING, <path d="M6.2 6.5a1.85 1.85 0 1 1 2.7 1.7c-.6.3-.9.6-.9 1.2" />, <path d="M8 11.3v.05" />],
  skip: [<path d="M2.5 4.5h6.2a3 3 0 0 1 0 6H5" />, <path d="M7.2 8.2L4.9 10.5l2.3 2.3" />],
  expired: [
    <path d="M4 2h8M4 14h8M4.8 2v2.2c0 1.6 3.2 2.6 3.2 3.8s-3.2 2.2-3.2 3.8V14M11.2 2v2.2C11.2 5.8 8 6.8 8 8s3.2 2.2 3.2 3.8V14" />,
  ],
  invalid: [<path d="M5.4 1.75h5.2l3.65 3.65v5.2l-3.65 3.65H5.4L1.75 10.6V5.4z" />, <path d="M8 4.8v3.7M8 11v.05" />],
  warn: [<path d="M8 2.2l6.2 11.2H1.8z" />, <path d="M8 6.5v3.2M8 11.5v.05" />],
  ask: [<path d="M2.2 2.8h11.6v8H7.5L4.6 13.6v-2.8H2.2z" />, <path d="M5 5.7h6M5 8h4" />],
  right: [<path d="M6.2 4l4 4-4 4" />],
  down: [<path d="M4 6.2l4 4 4-4" />],
  stop: [<rect x="4" y="4" width="8" height="8" fill="currentColor" stroke-width="1" />],
  shield: [<path d="M8 1.8l5 1.9v3.9c0 3.2-2.1 5.4-5 6.6-2.9-1.2-5-3.4-5-6.6V3.7z" />],
  offline: [
    <path d="M1.8 6.2a9 9 0 0 1 12.4 0M4.5 9.2a5.2 5.2 0 0 1 4.8-1.4M7.2 12.4v.05M10.6 10.4l3.6 3.6M14.2 10.4l-3.6 3.6" />,
  ],
  undo: [<path d="M3 6h6.5a3.5 3.5 0 0 1 0 7H6" />, <path d="M5.8 3.2L3 6l2.8 2.8" />],
  summary: [<path d="M3.4 1.9h9.2v12.2H3.4z" />, <path d="M5.8 5.2h4.4M5.8 8h4.4M5.8 10.8h2.4" />],
  repeat: [
    <path d="M2.2 7a5.8 5.8 0 0 1 10.3-2.4L14 6.2M13.8 9a5.8 5.8 0 0 1-10.3 2.4L2 9.8" />,
    <path d="M14 3v3.2h-3.2M2 13V9.8h3.2" />,
  ],
  gauge: [<path d="M3.3 12.3a6.25 6.25 0 1 1 9.4 0" />, <path d="M8 8.5l2.8-2.8" />],
} satisfies Record<string, readonly JSX.Element[]>;

export type IconName = keyof typeof DRAWINGS;

export function Icon({ name, tone = "" }: { name: IconName; tone?: string }): JSX.Element {
  return (
    <svg class={`ak-ico ${tone}`} viewBox="0 0 16 16" aria-hidden="true">
      {DRAWINGS[name]}
    </svg>
  );
}

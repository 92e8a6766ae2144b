// Signs of the interface, 16 px wide; what they stand for is said in words beside them.

import type { ComponentChildren } from "preact";

function Icon({ children }: { children: ComponentChildren }) {
  return <svg class="icon" viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.5" aria-hidden="true">{children}</svg>;
}

export const MenuIcon = () => <Icon><path d="M1.5 5.5h13M1.5 10.5h13" /></Icon>;
export const EventsIcon = () => <Icon><path d="M2.5 2v12M5.5 4.5H12M5.5 8h8M5.5 11.5H10" /></Icon>;
export const CodeIcon = () => <Icon><path d="M5.5 4 1.5 8l4 4M10.5 4l4 4-4 4" /></Icon>;
export const TapeIcon = () => <Icon><path d="M3 2.5h10v11H3zM5.5 6h5M5.5 8.5h5M5.5 11h3" /></Icon>;
export const StopIcon = () => <Icon><rect x="3.5" y="3.5" width="9" height="9" rx="1.5" fill="currentColor" stroke="none" /></Icon>;
export const AgainIcon = () => <Icon><path d="M13 8a5 5 0 1 1-1.6-3.7M13 1.8v3h-3" /></Icon>;
export const CloseIcon = () => <Icon><path d="m3.5 3.5 9 9M12.5 3.5l-9 9" /></Icon>;
export const UpIcon = () => <Icon><path d="m3.5 10 4.5-4.5 4.5 4.5" /></Icon>;

import { Component, type ComponentChildren } from "preact";

/** A component that renders only when same says that its props are others. */
export function memo<P>(render: (props: P) => ComponentChildren, same: (a: P, b: P) => boolean) {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return !same(this.props as P, next as P);
    }
    override render(): ComponentChildren {
      return render(this.props as P);
    }
  };
}

/** Whether two objects have the same members, by identity. */
export function shallow<P extends object>(a: P, b: P): boolean {
  for (const key in a) if (a[key] !== b[key]) return false;
  for (const key in b) if (!(key in a)) return false;
  return true;
}

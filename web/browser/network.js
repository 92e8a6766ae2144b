// The way between a page and its server, which a test can cut.
import { connect, createServer } from "node:net";
import { Transform } from "node:stream";

/** Opens one to the server at `to`. Pages go by its `url`. */
export async function network(t, to) {
  const { hostname, port } = new URL(to);
  const open = new Set();
  let down = false;
  const relay = createServer((near) => {
    const far = connect(port, hostname);
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        open.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    if (down) return near.destroy();
    near.pipe(far);
    far.pipe(hurried()).pipe(near);
  });
  await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    relay.close();
    for (const socket of open) socket.destroy();
  });
  return {
    url: `http://127.0.0.1:${relay.address().port}`,
    /** Breaks all connections, and refuses others until it is up again. */
    cut() {
      down = true;
      for (const socket of open) socket.destroy();
    },
    up: () => (down = false),
    /** From now on nothing comes through on the connections that there are, and nobody is told. */
    silence() {
      for (const socket of open) socket.unpipe();
    },
  };
}

// The pause that a server asks for before another try is too long for tests.
const hurried = () => new Transform({ transform: (bytes, _, done) => done(null, Buffer.from(bytes.toString("latin1").replace(/^retry: \d{4}$/m, "retry: 0050"), "latin1")) });

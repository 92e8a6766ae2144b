/** Numbers below n that are the same in each run, by a seed that is not 0. */
export function random(seed) {
  let s = seed >>> 0;
  return (n) => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    return (s >>> 0) % n;
  };
}

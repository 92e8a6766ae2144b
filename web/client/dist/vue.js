// src/vue.ts
import { getCurrentInstance, getCurrentScope, onMounted, onScopeDispose, shallowRef, toValue, watch } from "vue";
import { run } from "./index.js";
function useRun(url, request, options) {
  const document = shallowRef();
  const status = shallowRef("idle");
  const error = shallowRef();
  const current = shallowRef();
  const begin = () => {
    const before = current.value;
    const what2 = toValue(request);
    const next = what2 ? run(toValue(url), what2, options) : void 0;
    const show = (to) => {
      if (next !== current.value) return;
      document.value = to;
      status.value = next?.status ?? "idle";
      error.value = next?.error;
    };
    current.value = next;
    before?.close();
    show(void 0);
    next?.watch(() => show(next.document));
  };
  const what = () => {
    const asked = toValue(request);
    return asked ? toValue(url) + "\n" + JSON.stringify(asked) : "";
  };
  const follow = () => watch(what, begin, { immediate: true });
  if (getCurrentInstance()) onMounted(follow);
  else if (typeof window !== "undefined") follow();
  if (getCurrentScope()) {
    onScopeDispose(() => {
      const last = current.value;
      current.value = void 0;
      last?.close();
    });
  }
  return { document, status, error, run: current, cancel: async () => current.value?.cancel() };
}
export {
  useRun
};

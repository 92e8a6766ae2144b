// src/vue.ts
import { onScopeDispose, shallowRef, toValue, watch } from "vue";
import { run } from "./index.js";
function useRun(url, request, options) {
  const document = shallowRef();
  const status = shallowRef("idle");
  const error = shallowRef();
  const current = shallowRef();
  const begin = () => {
    current.value?.close();
    const what = toValue(request);
    const next = what ? run(toValue(url), what, options) : void 0;
    const show = (to) => {
      if (next !== current.value) return;
      document.value = to;
      status.value = next?.status ?? "idle";
      error.value = next?.error;
    };
    current.value = next;
    show(void 0);
    next?.watch(() => show(next.document));
  };
  watch(() => {
    const what = toValue(request);
    return what ? toValue(url) + "\n" + JSON.stringify(what) : "";
  }, begin, { immediate: true });
  onScopeDispose(() => current.value?.close());
  return { document, status, error, run: current, cancel: async () => current.value?.cancel() };
}
export {
  useRun
};

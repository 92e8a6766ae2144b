// src/vue.ts
import { getCurrentInstance, getCurrentScope, onMounted, onScopeDispose, shallowRef, toValue, watch } from "vue";
import { attach, run } from "./index.js";
function useRun(url, request, options) {
  const document = shallowRef();
  const status = shallowRef("idle");
  const error = shallowRef();
  const current = shallowRef();
  const start = (asked, options2) => "run" in asked ? attach(toValue(url), asked.run, options2) : run(toValue(url), asked, options2);
  const begin = (options2) => {
    const before = current.value;
    const asked = toValue(request);
    const next = asked ? start(asked, options2) : void 0;
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
  const restart = () => current.value && begin({ ...options, key: void 0 });
  const what = () => {
    const asked = toValue(request);
    return asked ? toValue(url) + "\n" + JSON.stringify(asked) : "";
  };
  const follow = () => watch(what, () => begin(options), { immediate: true });
  if (getCurrentInstance()) onMounted(follow);
  else if (typeof window !== "undefined") follow();
  if (getCurrentScope()) {
    onScopeDispose(() => {
      const last = current.value;
      current.value = void 0;
      last?.close();
    });
  }
  return { document, status, error, run: current, cancel: async () => current.value?.cancel(), restart };
}
export {
  useRun
};

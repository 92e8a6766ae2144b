var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __export = (target, all) => {
  for (var name in all)
    __defProp(target, name, { get: all[name], enumerable: true });
};
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key) && key !== except)
        __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
  }
  return to;
};
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

// src/vue.ts
var vue_exports = {};
__export(vue_exports, {
  useRun: () => useRun
});
module.exports = __toCommonJS(vue_exports);
var import_vue = require("vue");
var import_index = require("./index.js");
function useRun(url, request, options) {
  const document = (0, import_vue.shallowRef)();
  const status = (0, import_vue.shallowRef)("idle");
  const error = (0, import_vue.shallowRef)();
  const current = (0, import_vue.shallowRef)();
  const start = (asked, options2) => "run" in asked ? (0, import_index.attach)((0, import_vue.toValue)(url), asked.run, options2) : (0, import_index.run)((0, import_vue.toValue)(url), asked, options2);
  const begin = (options2) => {
    const before = current.value;
    const asked = (0, import_vue.toValue)(request);
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
    const asked = (0, import_vue.toValue)(request);
    return asked ? (0, import_vue.toValue)(url) + "\n" + JSON.stringify(asked) : "";
  };
  const follow = () => (0, import_vue.watch)(what, () => begin(options), { immediate: true });
  if ((0, import_vue.getCurrentInstance)()) (0, import_vue.onMounted)(follow);
  else if (typeof window !== "undefined") follow();
  if ((0, import_vue.getCurrentScope)()) {
    (0, import_vue.onScopeDispose)(() => {
      const last = current.value;
      current.value = void 0;
      last?.close();
    });
  }
  return { document, status, error, run: current, cancel: async () => current.value?.cancel(), restart };
}

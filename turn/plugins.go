package turn

// plugins are the plugins and the router of the turns that begin. It is replaced when a plugin is registered or a router bound, and
// never changed: a turn keeps its own.
type plugins struct {
	all    []Named[any] // in calling order
	router Router       // nil if none is bound
}

// of returns the plugins that implement H.
func of[H any](all []Named[any]) []Named[H] {
	var list []Named[H]
	for _, p := range all {
		if h, ok := p.Hook.(H); ok {
			list = append(list, Named[H]{p.Name, h})
		}
	}
	return list
}

// declared is a hook and how to see whether a plugin has it.
type declared struct {
	name string
	is   func(any) bool
}

func implements[H any](plugin any) bool { _, ok := plugin.(H); return ok }

// ownHooks are the hooks of this package, in the order of the turn.
var ownHooks = []declared{
	{string(StageResolve), implements[SessionResolver]},
	{string(StageLoad), implements[StateLoader]},
	{string(StagePrompt), implements[PromptBuilder]},
	{string(StageModel), implements[ModelRunner]},
	{"run_model_stream", implements[ModelStreamer]},
	{string(StageSave), implements[StateSaver]},
	{string(StageRender), implements[Renderer]},
	{string(StageDispatch), implements[Dispatcher]},
	{"on_error", implements[ErrorObserver]},
	{string(StageSystem), implements[SystemPrompter]},
	{string(StageStore), implements[StoreProvider]},
	{string(StageContext), implements[ContextBuilder]},
	{string(StageAside), implements[Asider]},
}

// hooksOf lists plugins by hook. f.mu is held.
func (f *Framework) hooksOf(all []Named[any]) map[string][]string {
	hooks := map[string][]string{}
	for _, list := range [][]declared{ownHooks, f.declared} {
		for _, d := range list {
			for _, p := range all {
				if d.is(p.Hook) {
					hooks[d.name] = append(hooks[d.name], p.Name)
				}
			}
		}
	}
	return hooks
}

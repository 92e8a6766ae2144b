package turn

// plugins is who does what. It is made when a plugin is registered or a router bound, and never changed: a turn that has begun
// keeps its own.
type plugins struct {
	all        []Named[any] // in calling order
	resolvers  []Named[SessionResolver]
	loaders    []Named[StateLoader]
	prompters  []Named[PromptBuilder]
	models     []Named[model]
	savers     []Named[StateSaver]
	renderers  []Named[Renderer]
	dispatches []Named[Dispatcher]
	observers  []Named[ErrorObserver]
	systems    []Named[SystemPrompter]
	stores     []Named[StoreProvider]
	contexts   []Named[ContextBuilder]
	asiders    []Named[Asider]
	router     Router // nil where none is bound
}

// model is a plugin of the model stage, which has one of the two hooks at least.
type model struct {
	runner   ModelRunner
	streamer ModelStreamer
}

// replace makes a new table of these plugins and the router. f.mu is held.
func (f *Framework) replace(all []Named[any]) {
	p := &plugins{
		all:        all,
		resolvers:  of[SessionResolver](all),
		loaders:    of[StateLoader](all),
		prompters:  of[PromptBuilder](all),
		savers:     of[StateSaver](all),
		renderers:  of[Renderer](all),
		dispatches: of[Dispatcher](all),
		observers:  of[ErrorObserver](all),
		systems:    of[SystemPrompter](all),
		stores:     of[StoreProvider](all),
		contexts:   of[ContextBuilder](all),
		asiders:    of[Asider](all),
	}
	for _, n := range all {
		var m model
		m.runner, _ = n.Hook.(ModelRunner)
		m.streamer, _ = n.Hook.(ModelStreamer)
		if m.runner != nil || m.streamer != nil {
			p.models = append(p.models, Named[model]{n.Name, m})
		}
	}
	if n := len(f.routers); n > 0 {
		p.router = *f.routers[n-1]
	}
	f.plugins.Store(p)
}

// of picks those that implement H.
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

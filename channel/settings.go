package channel

// Keys of the settings, as they stand below a channel. [AccessFacts.Sources] and [Policy.Sources] have them as keys, too.
const (
	keyDMPolicy       = "dm.policy"
	keyDMAllowFrom    = "dm.allow_from"
	keyGroupPolicy    = "groups.policy"
	keyGroupAllowFrom = "groups.allow_from"
	keyOnly           = "groups.only"
	keyEnabled        = "groups.enabled"
	keyRequireMention = "groups.require_mention"
	keyUnmentioned    = "unmentioned"
	keyPatterns       = "mentions.patterns"
	keyImplicit       = "implicit_mentions"
	keyMatchMutable   = "match_mutable"
	keyAllowBots      = "allow_bots"
	keyVisibility     = "context_visibility"
	keyCommandMode    = "commands.mode"
	keyUsers          = "commands.users"
	keyOperators      = "commands.operators"
	keyAdmins         = "commands.admins"
	keyDebounce       = "debounce"
	keyErrorNotice    = "error_notice"
	keyOnBusy         = "on_busy"
	keyAgent          = "agent"
	keySystemPrompt   = "system_prompt"
	keySenderIDs      = "log.sender_ids"
	keyPreviews       = "log.previews"
)

// builtIn begins the path of a value that no configuration supplied.
const builtIn = "default:"

// source is the path of the setting that supplied a value.
func source(a *AccessFacts, key string) string {
	if path, ok := a.Sources[key]; ok {
		return path
	}
	return builtIn + key
}

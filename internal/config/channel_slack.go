package config

// Slack has the settings of a channel of type slack; see package channel/slack.
type Slack struct {
	Token         Secret
	SigningSecret Secret
	API           string
	Replies       string
	Preview       string
	MaxMedia      Size
}

var slackSettings = settingsIn(func(ch *Channel) *Slack { return &ch.Slack }, []Setting{
	{Key: "token", Secret: true, Help: "token of the app's bot, xoxb-…, from its page OAuth & Permissions"},
	{Key: "signing_secret", Secret: true, Help: "signing secret of events, from the app's page Basic Information"},
	{Key: "api", Default: "https://slack.com/api", check: unlessEmpty(checkURL), Help: "address of the Web API"},
	{
		Key: "replies", Default: "thread", OneOf: []string{"thread", "channel"},
		Help: "where a message in a channel is answered: in its thread, or in the channel",
	},
	{
		Key: "preview", Default: "edit", OneOf: []string{"edit", "off"},
		Help: "what people see of an unfinished answer: a growing message, or nothing",
	},
	{Key: "max_media", Default: "10MiB", Min: "0B", Help: "maximum size of a file"},
})

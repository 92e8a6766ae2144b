package config

// Discord has the settings of a channel of type discord; see package channel/discord.
type Discord struct {
	Token    Secret
	API      string
	Preview  string
	Menu     string
	MaxMedia Size
}

var discordSettings = settingsIn(func(ch *Channel) *Discord { return &ch.Discord }, []Setting{
	{Key: "token", Secret: true, Help: "token of the bot, from the page Bot of the application"},
	{
		Key: "api", Default: "https://discord.com/api", check: unlessEmpty(checkURL),
		Help: "address of the REST API, without its version; the API says where the gateway is",
	},
	{
		Key: "preview", Default: "edit", OneOf: []string{"edit", "off"},
		Help: "what people see of an unfinished answer: a growing message, or nothing",
	},
	{
		Key: "menu", Default: "commands", OneOf: []string{"commands", "off"},
		Help: "application commands behind the slash: the server's commands, or those that the application has",
	},
	{Key: "max_media", Default: "10MiB", Min: "0B", Help: "maximum size of a file"},
})

using System;
using System.Linq;
using System.Text;

static byte[] Decode(string text) => Convert.FromBase64String(text);
static string Text(string text) => Encoding.UTF8.GetString(Decode(text));

while (Console.In.ReadLine() is { } line)
{
    var fields = line.Split('\t');
    var secrets = fields[2].Split(',').Select(secret => secret == "-" ? null : Text(secret));
    var header = fields[1] == "-" ? null : Text(fields[1]);
    var valid = WebhookVerifier.Verify(Decode(fields[0]), header, secrets, long.Parse(fields[3]), long.Parse(fields[4]));
    Console.WriteLine(valid ? 1 : 0);
}

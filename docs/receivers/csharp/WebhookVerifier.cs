using System;
using System.Collections.Generic;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

/// <summary>Verifies X-Service-Signature. Requires only .NET 6 or later.</summary>
public static class WebhookVerifier
{
    private static readonly Regex Timestamp = new(@"\A(0|[1-9][0-9]{0,14})\z");
    private static readonly Regex Signature = new(@"\A[0-9a-f]{64}\z");

    /// <param name="rawBody">the unparsed request body</param>
    /// <param name="header">the value of X-Service-Signature, or null</param>
    /// <param name="secrets">the complete secrets (whsec_…); pass both secrets during a rotation</param>
    /// <param name="now">Unix time in seconds; defaults to the system clock</param>
    public static bool Verify(byte[] rawBody, string? header, IEnumerable<string?> secrets, long tolerance = 300, long? now = null)
    {
        var times = new List<string>();
        var given = new List<byte[]>();
        foreach (var part in (header ?? "").Split(','))
        {
            var pair = part.Split('=', 2);
            if (pair.Length < 2) continue;
            if (pair[0] == "t") times.Add(pair[1]);
            else if (pair[0] == "v1" && Signature.IsMatch(pair[1])) given.Add(Convert.FromHexString(pair[1]));
        }
        if (times.Count != 1 || !Timestamp.IsMatch(times[0])) return false;
        var sent = long.Parse(times[0], CultureInfo.InvariantCulture);
        if (Math.Abs((now ?? DateTimeOffset.UtcNow.ToUnixTimeSeconds()) - sent) > tolerance) return false;
        var prefix = Encoding.UTF8.GetBytes(times[0] + ".");
        var signed = new byte[prefix.Length + rawBody.Length];
        prefix.CopyTo(signed, 0);
        rawBody.CopyTo(signed, prefix.Length);
        var valid = false;
        foreach (var secret in secrets)
        {
            // Skips missing secrets: anyone could forge a signature with an empty key.
            if (string.IsNullOrEmpty(secret)) continue;
            var expected = HMACSHA256.HashData(Encoding.UTF8.GetBytes(secret), signed);
            foreach (var value in given) valid |= CryptographicOperations.FixedTimeEquals(expected, value);
        }
        return valid;
    }
}

// ASP.NET Core
//
//   app.MapPost("/hook", async (HttpRequest request) =>
//   {
//       using var buffer = new MemoryStream();
//       await request.Body.CopyToAsync(buffer);
//       var signature = request.Headers["X-Service-Signature"].ToString();
//       if (!WebhookVerifier.Verify(buffer.ToArray(), signature, new[] { secret })) return Results.Unauthorized();
//       queue.Enqueue(buffer.ToArray());   // deliveries may repeat: deduplicate by X-Service-Delivery
//       return Results.NoContent();        // acknowledge within 5 s
//   });

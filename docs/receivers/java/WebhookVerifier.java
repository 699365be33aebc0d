import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies X-Service-Signature. Requires only Java 11 or later. */
public final class WebhookVerifier {
    private WebhookVerifier() {}

    /** Verifies with a tolerance of 300 seconds and the system clock. */
    public static boolean verify(byte[] rawBody, String header, List<String> secrets) {
        return verify(rawBody, header, secrets, 300, System.currentTimeMillis() / 1000);
    }

    /**
     * @param rawBody the unparsed request body
     * @param header the value of X-Service-Signature, or null
     * @param secrets the complete secrets (whsec_…); pass both secrets during a rotation
     * @param now Unix time in seconds
     */
    public static boolean verify(byte[] rawBody, String header, List<String> secrets, long tolerance, long now) {
        List<String> times = new ArrayList<>();
        List<byte[]> given = new ArrayList<>();
        for (String part : (header == null ? "" : header).split(",", -1)) {
            int at = part.indexOf('=');
            if (at < 0) continue;
            String name = part.substring(0, at);
            String value = part.substring(at + 1);
            if (name.equals("t")) times.add(value);
            else if (name.equals("v1") && value.matches("[0-9a-f]{64}")) given.add(fromHex(value));
        }
        if (times.size() != 1 || !times.get(0).matches("0|[1-9][0-9]{0,14}")) return false;
        long age = now - Long.parseLong(times.get(0));
        if (age > tolerance || age < -tolerance) return false;
        boolean valid = false;
        for (String secret : secrets) {
            // System.getenv returns null for an unset variable. Anyone could forge a signature with an empty key.
            if (secret == null || secret.isEmpty()) continue;
            byte[] expected = hmac(secret, times.get(0), rawBody);
            for (byte[] value : given) valid |= MessageDigest.isEqual(expected, value);
        }
        return valid;
    }

    private static byte[] hmac(String secret, String time, byte[] rawBody) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
            mac.update((time + ".").getBytes(StandardCharsets.UTF_8));
            return mac.doFinal(rawBody);
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static byte[] fromHex(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return bytes;
    }
}

// Spring
//
//   @PostMapping("/hook")
//   ResponseEntity<Void> hook(@RequestBody byte[] rawBody,
//           @RequestHeader(name = "X-Service-Signature", required = false) String signature) {
//       if (!WebhookVerifier.verify(rawBody, signature, List.of(secret))) return ResponseEntity.status(401).build();
//       queue.add(rawBody);                          // deliveries may repeat: deduplicate by X-Service-Delivery
//       return ResponseEntity.noContent().build();   // acknowledge within 5 s
//   }

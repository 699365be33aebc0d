import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

final class Driver {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            List<String> secrets = new ArrayList<>();
            for (String secret : fields[2].split(",", -1)) secrets.add(secret.equals("-") ? null : text(secret));
            String header = fields[1].equals("-") ? null : text(fields[1]);
            byte[] body = Base64.getDecoder().decode(fields[0]);
            long tolerance = Long.parseLong(fields[3]);
            System.out.println(WebhookVerifier.verify(body, header, secrets, tolerance, Long.parseLong(fields[4])) ? 1 : 0);
        }
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}

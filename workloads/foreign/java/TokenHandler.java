import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * Logs in by OAUTHBEARER with a token that is an option of the line of JAAS. The token outlives the
 * client, so it is never asked for again.
 */
public final class TokenHandler implements AuthenticateCallbackHandler {
    private OAuthBearerToken token;

    @Override
    public void configure(
        Map<String, ?> properties, String mechanism, List<AppConfigurationEntry> logins
    ) {
        String value = (String) logins.get(0).getOptions().get("token");
        byte[] claims = Base64.getUrlDecoder().decode(value.split("\\.")[1]);
        String text = new String(claims, StandardCharsets.UTF_8);
        long expires = Long.parseLong(claim(text, "exp", "([0-9]+)"));
        String user = claim(text, "sub", "\"([^\"]*)\"");
        token = new Token(value, Set.of(), expires * 1000, user, null);
    }

    @Override
    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback one : callbacks) {
            if (!(one instanceof OAuthBearerTokenCallback asked)) {
                throw new UnsupportedCallbackException(one);
            }
            asked.token(token);
        }
    }

    @Override
    public void close() {}

    private static String claim(String claims, String name, String value) {
        Matcher found = Pattern.compile("\"" + name + "\"\\s*:\\s*" + value).matcher(claims);
        if (!found.find()) {
            throw new IllegalArgumentException("the token has no claim " + name);
        }
        return found.group(1);
    }

    private record Token(
        String value, Set<String> scope, long lifetimeMs, String principalName, Long startTimeMs
    ) implements OAuthBearerToken {}
}

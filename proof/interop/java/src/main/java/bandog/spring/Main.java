package bandog.spring;

import bandog.Kind;
import bandog.Neighbour;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.config.Config;
import org.redisson.spring.cache.CacheConfig;
import org.redisson.spring.cache.RedissonSpringCacheManager;
import org.springframework.boot.SpringApplication;
import org.springframework.cache.CacheManager;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.cache.interceptor.CacheResolver;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;

/**
 * A service with Spring Boot whose methods are cached. The arguments are the server's URL and a number that is not used.
 *
 * <p>The kind of a command is {@code cache} and a codec. Its name is that of a cache: {@code timed} has a ttl and an idle
 * time, and {@code plain} has none.
 */
@Configuration(proxyBeanMethods = false)
@EnableCaching
public class Main {
    private static final long HOUR = 3_600_000;

    public static void main(String[] args) throws IOException {
        SpringApplication application = new SpringApplication(Main.class);
        application.setDefaultProperties(Map.of(
                "url", args[0],
                "spring.main.banner-mode", "off",
                "spring.main.web-application-type", "none",
                "logging.level.root", "error"));
        Prices prices = application.run().getBean(Prices.class);
        Map<String, Kind> kinds = new HashMap<>();
        for (String codec : List.of("kryo5", "json")) {
            kinds.put("cache " + codec, (verb, name, words) -> prices.obey(codec + " " + name, verb, words));
        }
        Neighbour.serve(kinds, Set.of());
    }

    @Bean
    RedissonClient redisson(@org.springframework.beans.factory.annotation.Value("${url}") String url) {
        Config config = new Config();
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(4);
        return Redisson.create(config);
    }

    @Bean
    @Primary
    CacheManager kryo5(RedissonClient redisson) {
        return manager(redisson, new Kryo5Codec());
    }

    @Bean
    CacheManager json(RedissonClient redisson) {
        return manager(redisson, new JsonJacksonCodec());
    }

    private static CacheManager manager(RedissonClient redisson, Codec codec) {
        Map<String, CacheConfig> timed = new HashMap<>(Map.of("timed", new CacheConfig(HOUR, HOUR)));
        return new RedissonSpringCacheManager(redisson, timed, codec); // It adds the others.
    }

    /** The cache whose codec and name are the first argument of the method. */
    @Bean
    CacheResolver byArgument(Map<String, CacheManager> managers) {
        return context -> {
            String[] words = ((String) context.getArgs()[0]).split(" ");
            return List.of(managers.get(words[0]).getCache(words[1]));
        };
    }

    @Bean
    Source source() {
        return new Source();
    }

    @Bean
    Prices prices(Source source) {
        return new Prices(source);
    }
}

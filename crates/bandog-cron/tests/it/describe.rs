//! Descriptions of expressions in English and in Chinese.

use bandog_cron::{Cron, Dialect, Language};

/// Dialect, expression, and its description in English and in Chinese.
#[rustfmt::skip]
const ROWS: &[(Dialect, &str, &str, &str)] = &[
    (Dialect::Quartz, "* * * * * ?", "Every second, every day", "每天，每秒"),
    (Dialect::Quartz, "0/10 * * * * ?", "Every 10 seconds, every day", "每天，每 10 秒"),
    (Dialect::Quartz, "5/15 * * * * ?", "Every 15 seconds from second 5, every day", "每天，从第 5 秒起每 15 秒"),
    (Dialect::Quartz, "0 * * * * ?", "Every minute, every day", "每天，每分钟"),
    (Dialect::Quartz, "19 * * * * ?", "At second 19, every day", "每天，第 19 秒"),
    (Dialect::Quartz, "0 0/5 * * * ?", "Every 5 minutes, every day", "每天，每 5 分钟"),
    (Dialect::Quartz, "0 15,20 * * * ?", "At minutes 15 and 20 of every hour, every day", "每天，每小时，第 15、20 分"),
    (Dialect::Quartz, "0 0/5 9-17 ? * MON-FRI", "Every 5 minutes from 09:00 to 17:59, Monday to Friday", "周一至周五，09:00 至 17:59，每 5 分钟"),
    (Dialect::Quartz, "@hourly", "Every hour, every day", "每天，每小时整点"),
    (Dialect::Quartz, "0 0 0/2 * * ?", "Every 2 hours, every day", "每天，每 2 小时整点"),
    (Dialect::Quartz, "0 0 9-21 * * 2-7", "Every hour from 09:00 to 21:00, Monday to Saturday", "周一至周六，09:00 至 21:00 每小时整点"),
    (Dialect::Quartz, "0 0 2 1 * ? *", "At 02:00, on day 1 of the month", "每月 1 日，02:00"),
    (Dialect::Quartz, "0 0 9,13,18 * * ?", "At 09:00, 13:00 and 18:00, every day", "每天，09:00、13:00、18:00"),
    (Dialect::Quartz, "0 15 10 ? * 6L 2002-2006", "At 10:15, on the last Friday of the month, from 2002 to 2006", "2002 至 2006 年，每月最后一个周五，10:15"),
    (Dialect::Quartz, "0 0 0 ? * 4#2", "At 00:00, on the 2nd Wednesday of the month", "每月第 2 个周三，00:00"),
    (Dialect::Quartz, "0 0 0 1W,15,LW * ?", "At 00:00, on day 15 of the month, on the weekday nearest to day 1 of the month and on the last weekday (Monday to Friday) of the month", "每月 15 日、离每月 1 日最近的工作日、每月最后一个工作日，00:00"),
    (Dialect::Quartz, "0 0 0 L-3 * ?", "At 00:00, on the day 3 days before the last of the month", "每月倒数第 4 天，00:00"),
    (Dialect::Quartz, "19 15 10 4 Apr ?", "At 10:15:19, on day 4 of the month, in April", "4 月，每月 4 日，10:15:19"),
    (Dialect::Quartz, "0 0 0 31 6 ?", "At 00:00, on day 31 of the month, in June", "6 月，每月 31 日，00:00"),
    (Dialect::Quartz, "0 0 0 ? * FRI-MON", "At 00:00, on Monday, Friday, Saturday and Sunday", "每周一、周五、周六、周日，00:00"),
    (Dialect::Spring, "0 0 0 13 * FRI", "At 00:00, on day 13 of the month, if it is also on Friday", "每月 13 日且为每周五，00:00"),
    (Dialect::Unix, "0 0 1-31 * 5", "At 00:00, every day", "每天，00:00"),
    (Dialect::Unix, "0 0 13 * 0-6", "At 00:00, every day", "每天，00:00"),
    (Dialect::Unix, "0 0 13 * 5", "At 00:00, on day 13 of the month, or on Friday", "每月 13 日或每周五，00:00"),
];

#[test]
fn each_expression_is_described_in_english_and_in_chinese() {
    for (dialect, text, english, chinese) in ROWS {
        let cron = Cron::parse_with(text, *dialect).unwrap();
        assert_eq!(cron.describe(), *english, "{text}");
        assert_eq!(cron.describe_in(Language::Chinese), *chinese, "{text}");
    }
}

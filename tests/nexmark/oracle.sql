-- q5
WITH counts AS (
  SELECT auction, count(*) AS num, time_bucket(INTERVAL 2 SECOND, date_time) - INTERVAL (2 * step) SECOND AS starttime
  FROM bid, range(5) AS steps(step) GROUP BY ALL
)
SELECT auction, num FROM (SELECT *, max(num) OVER (PARTITION BY starttime) AS maxn FROM counts) WHERE num = maxn
-- q7
SELECT B.auction, B.price, B.bidder, B.date_time, B.extra
FROM bid B
JOIN (
  SELECT max(price) AS maxprice, time_bucket(INTERVAL 10 SECOND, date_time) + INTERVAL 10 SECOND AS date_time
  FROM bid GROUP BY ALL
) B1
ON B.price = B1.maxprice
WHERE B.date_time BETWEEN B1.date_time - INTERVAL 10 SECOND AND B1.date_time
-- q8
SELECT P.id, P.name, P.starttime
FROM (SELECT DISTINCT id, name, time_bucket(INTERVAL 10 SECOND, date_time) AS starttime FROM person) P
JOIN (SELECT DISTINCT seller, time_bucket(INTERVAL 10 SECOND, date_time) AS starttime FROM auction) A
ON P.id = A.seller AND P.starttime = A.starttime
-- q11
WITH begins AS (
  SELECT bidder, date_time,
    date_time > lag(date_time, 1, TIMESTAMPTZ '1970-01-01') OVER of_bidder + INTERVAL 10 SECOND AS is_first
  FROM bid WINDOW of_bidder AS (PARTITION BY bidder ORDER BY date_time)
), numbered AS (
  SELECT bidder, date_time, count(*) FILTER (WHERE is_first) OVER (PARTITION BY bidder ORDER BY date_time) AS number
  FROM begins
)
SELECT bidder, count(*) AS bid_count, min(date_time) AS starttime, max(date_time) + INTERVAL 10 SECOND AS endtime
FROM numbered GROUP BY bidder, number
-- q12
SELECT bidder, count(*) AS bid_count, time_bucket(INTERVAL 10 SECOND, date_time) AS starttime,
  time_bucket(INTERVAL 10 SECOND, date_time) + INTERVAL 10 SECOND AS endtime
FROM bid GROUP BY ALL

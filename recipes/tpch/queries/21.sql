-- Suppliers of a nation who alone kept orders of several suppliers waiting.
select s_name, count(*) from supplier join nation on n_nationkey = s_nationkey
join lineitem late on l_suppkey = s_suppkey join orders on o_orderkey = l_orderkey
where n_name = 'SAUDI ARABIA' and o_orderstatus = 'F' and l_receiptdate > l_commitdate
and exists (
  select from lineitem other where other.l_orderkey = late.l_orderkey and other.l_suppkey <> late.l_suppkey
)
and not exists (
  select from lineitem other where other.l_orderkey = late.l_orderkey
  and other.l_suppkey <> late.l_suppkey and other.l_receiptdate > other.l_commitdate
)
group by 1 order by 2 desc, 1 limit 100;
